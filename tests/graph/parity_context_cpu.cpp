#include "graph/parity_context.h"
#include "graph/small_models.h"

namespace tandem {

AnyContext parity_context() { return cpu(1); }

bool same_kernels_fused() { return true; }

}  // namespace tandem
