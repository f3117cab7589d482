#include "graph/parity_context.h"
#include "graph/small_models.h"

namespace tandem {

AnyContext parity_context() { return cpu(1); }

}  // namespace tandem
