#include "device/trace_range.h"

namespace tandem {

TraceRange::TraceRange(const char* /*name*/) {}
TraceRange::~TraceRange() = default;

}  // namespace tandem
