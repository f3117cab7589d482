#include "train/record/metrics_writer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "base/atomic_file.h"
#include "base/log.h"
#include "train/checkpoints/mapped_file.h"

namespace tandem {
namespace {

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

/// The records of `text` (whole lines) up to `step`; where that `evaluates`, up to its evaluation.
std::string kept_lines(std::string_view text, std::int64_t step, bool evaluates,
                       const std::filesystem::path& path) {
  std::string kept;
  bool evaluated = false;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t length = std::min(text.find('\n'), text.size() - 1) + 1;
    const std::string_view line = text.substr(0, length);
    text.remove_prefix(length);
    const auto record = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!record.is_object()) {
      log_warning("{}:{}: dropping a damaged record", path.string(), number);
      continue;
    }
    const auto at = record.find("step");
    if (at != record.end() && at->is_number()) {
      const double over = at->get<double>() - static_cast<double>(step);
      const auto event = record.find("event");
      evaluated |= evaluates && over == 0.0 && event != record.end() && *event == "evaluation";
      if (over > 0.0 || (evaluated && over == 0.0)) continue;
    }
    kept += line;
  }
  return kept;
}

/// Opens a file of whole lines: what comes after the last line end is dropped.
AppendFile open_lines(std::filesystem::path path) {
  AppendFile file(std::move(path));
  const MappedFile before(file.path());
  const std::size_t whole = text_of(before).rfind('\n') + 1;  // npos + 1 is 0.
  if (whole < before.bytes().size()) file.truncate(whole);
  return file;
}

}  // namespace

MetricsWriter::MetricsWriter(std::filesystem::path path) : file_(open_lines(std::move(path))) {}

void MetricsWriter::write(const JsonLine& record) { file_.write(record.str() + "\n"); }

void MetricsWriter::resume_at(std::int64_t step, bool evaluates) {
  const std::filesystem::path path = file_.path();
  {
    const MappedFile before(path);
    const std::string kept = kept_lines(text_of(before), step, evaluates, path);
    if (kept.size() == before.bytes().size()) return;
    AtomicFile replacement(path);
    replacement.write(kept);
    replacement.commit();
  }
  file_ = open_lines(path);
}

}  // namespace tandem
