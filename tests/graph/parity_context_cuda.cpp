#include "graph/parity_context.h"

namespace tandem {

AnyContext parity_context() { return AnyContext(std::in_place_type<CudaContext>, 0); }

}  // namespace tandem
