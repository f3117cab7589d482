#include "fuzz_input.h"
#include "graph/fusion.h"
#include "graph/model_file.h"

// A model file, for several sizes of input, and what follows from it without memory of its own.

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem;
  const std::string_view text = fuzz::as_text({data, size});
  fuzz::refuse_or_read([&] {
    const Graph graph = fuse(parse_model(text, "model.toml", {}));
    TANDEM_CHECK(
        graph.output().rank() == 2 && graph.parameter_elements() >= 0 && graph.multiply_adds() >= 0,
        "an output of {}", graph.output().text());
  });
  fuzz::refuse_or_read([&] { parse_model(text, "model.toml", {.channels = 1, .size = 8}); });
  return 0;
}
