#include "graph/lent_gradients.h"

namespace tandem {

LentMemory lent_gradients(const ParameterStore& store, std::span<const int> written, int last) {
  // As long as the gradients.
  LentMemory lent{.bytes = store.trained_values().bytes(), .kept = {}};
  const std::span<const Parameter> trained = store.trained();
  for (std::size_t p = 0; p < trained.size(); ++p) {
    const std::size_t begin = static_cast<std::size_t>(trained[p].offset) * sizeof(float);
    const std::size_t bytes = static_cast<std::size_t>(trained[p].shape.elements()) * sizeof(float);
    const std::size_t end = begin + bytes;
    const std::size_t next = p + 1 < trained.size()
                                 ? static_cast<std::size_t>(trained[p + 1].offset) * sizeof(float)
                                 : lent.bytes;
    lent.kept.push_back(
        {.offset = begin, .buffer = {.bytes = bytes, .first = written[p], .last = last}});
    if (next > end) {
      lent.kept.push_back(
          {.offset = end, .buffer = {.bytes = next - end, .first = 0, .last = last}});
    }
  }
  return lent;
}

}  // namespace tandem
