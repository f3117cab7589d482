#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <vector>

#include "cli/run_folder.h"
#include "data/jpeg_writer.h"

namespace tandem::cli {

struct PhotoFolder {
  std::vector<std::string> classes{"cat", "dog"};
  int count = 4;  ///< of each class, 0.jpg and on
  int height = 12;
  int width = 10;
};

/// Makes train/ and validation/ in `folder`, each with the same small photos.
inline void write_photos(const std::filesystem::path& folder, const PhotoFolder& photos = {}) {
  const tandem::testing::Bytes photo =
      tandem::testing::write_jpeg(tandem::testing::smooth(photos.height, photos.width, 3), {});
  for (const char* part : {"train", "validation"}) {
    for (const std::string& name : photos.classes) {
      std::filesystem::create_directories(folder / part / name);
      for (int i = 0; i < photos.count; ++i) {
        write_file(folder / part / name / fmt::format("{}.jpg", i), {photo.begin(), photo.end()});
      }
    }
  }
}

}  // namespace tandem::cli
