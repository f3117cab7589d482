#include "fuzz_input.h"
#include "train/record/metrics_writer.h"

// The metrics that a former run left, as a resumed run opens them. What stays must be stable.

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem;
  static fuzz::MemoryFile left;
  static const std::filesystem::path path = fuzz::memory_folder() / "metrics.jsonl";
  std::filesystem::copy_file(left.write({data, size}), path,
                             std::filesystem::copy_options::overwrite_existing);
  fuzz::refuse_or_read([&] {
    MetricsWriter metrics(path);
    metrics.resume_at(10);
    const auto kept = std::filesystem::file_size(path);
    metrics.resume_at(10);
    TANDEM_CHECK(std::filesystem::file_size(path) == kept, "{} bytes changed", kept);
  });
  return 0;
}
