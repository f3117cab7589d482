#include "train/metrics_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/log.h"
#include "train/mapped_file.h"

namespace tandem {
namespace {

[[noreturn]] void fail(std::string_view what, const std::filesystem::path& path) {
  const int code = errno;
  system_error("cannot {} '{}': {}", what, path.string(), std::generic_category().message(code));
}

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

/// The records of `text` (whole lines) up to `step`.
std::string kept_lines(std::string_view text, std::int64_t step,
                       const std::filesystem::path& path) {
  std::string kept;
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
    if (at != record.end() && at->is_number() && at->get<double>() > static_cast<double>(step)) {
      continue;
    }
    kept += line;
  }
  return kept;
}

}  // namespace

MetricsWriter::MetricsWriter(std::filesystem::path path) : path_(std::move(path)) { open(); }

MetricsWriter::~MetricsWriter() { close(); }

void MetricsWriter::open() {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail("open", path_);
  try {
    const MappedFile file(path_);
    const std::size_t whole = text_of(file).rfind('\n') + 1;  // npos + 1 is 0.
    if (whole < file.bytes().size() && ::ftruncate(descriptor_, static_cast<off_t>(whole)) != 0) {
      fail("cut a torn line off", path_);
    }
  } catch (...) {
    close();
    throw;
  }
}

void MetricsWriter::close() {
  // Every line was checked as it was written; there is nothing left that closing could lose.
  if (descriptor_ >= 0) static_cast<void>(::close(std::exchange(descriptor_, -1)));
}

void MetricsWriter::write(const JsonLine& record) {
  const std::string line = record.str() + "\n";
  for (std::size_t done = 0; done < line.size();) {
    const ssize_t written = ::write(descriptor_, line.data() + done, line.size() - done);
    if (written < 0 && errno != EINTR) {
      system_error("cannot write '{}': {}; mend that and go on with --resume", path_.string(),
                   std::generic_category().message(errno));
    }
    if (written > 0) done += static_cast<std::size_t>(written);
  }
}

void MetricsWriter::resume_at(std::int64_t step) {
  {
    const MappedFile file(path_);
    const std::string kept = kept_lines(text_of(file), step, path_);
    if (kept.size() == file.bytes().size()) return;
    AtomicFile replacement(path_);
    replacement.write(kept);
    replacement.commit();
  }
  close();
  open();
}

}  // namespace tandem
