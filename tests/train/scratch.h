#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "support/temporary_folder.h"

namespace tandem {

/// A test with an empty folder of its own, removed at its end.
class ScratchTest : public testing::Test {
 protected:
  std::filesystem::path path(std::string_view name) const { return folder_ / name; }

  static void put(const std::filesystem::path& path, std::string_view bytes) {
    std::ofstream file(path, std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.close();
    ASSERT_TRUE(file.good()) << path;
  }
  static std::string get(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  TemporaryFolder temporary_;
  std::filesystem::path folder_ = temporary_.path();
};

}  // namespace tandem
