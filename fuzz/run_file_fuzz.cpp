#include "fuzz_input.h"
#include "train/run_config.h"

// A run file. What it writes down as the resolved run must be read as the same run again.

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem;
  const std::string_view text = fuzz::as_text({data, size});
  fuzz::refuse_or_read([&] {
    const RunConfig config = read_run_config(ConfigTable::from_text(text, "run.toml"));
    const RunConfig again = read_run_config(ConfigTable::from_text(config.text, "config.toml"));
    TANDEM_CHECK(again.text == config.text, "another run:\n{}\n{}", config.text, again.text);
  });
  return 0;
}
