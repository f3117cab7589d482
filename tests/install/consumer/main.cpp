#include "all_headers.h"

/// Calls into three of the libraries, so that their static archives and what these link are needed.
int main() {
  const auto table = tandem::ConfigTable::from_text("threads = 1\n", "text");
  tandem::AnyContext context = tandem::CpuContext(static_cast<int>(table.get_int("threads")));
  const tandem::Arena arena(context, 24, "the consumer's numbers");
  const tandem::Tensor numbers(arena.data(), {2, 3});
  return numbers.shape().text() == "2x3" && numbers.data<float>()[5] == 0.0F ? 0 : 1;
}
