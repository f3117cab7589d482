#include "parallel/placement/placement_store.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "support/message.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

const PlacementKey key{{"model", "resnet18"}, {"batch", "512"}, {"device", "NVIDIA H200"}};

TunedPlacement four_processes() {
  return {
      .placement = {.ranks_per_device = 4, .colocation = Colocation::processes, .sm_percent = 50},
      .loader_workers = 3,
      .images_per_second = 1234.5,
      .one_rank_images_per_second = 1000.25,
      .hosts = 2,
      .date = "2026-05-06T07:08:09Z"};
}

std::string content(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

void replace_in(const std::filesystem::path& file, const std::string& from, const std::string& to) {
  std::string text = content(file);
  const std::size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from << " is not in\n" << text;
  std::ofstream(file) << text.replace(at, from.size(), to);
}

TEST(PlacementStore, GivesBackWhatWasSaved) {
  const TemporaryFolder folder;
  const PlacementStore store(folder / "deeper");
  EXPECT_FALSE(store.find(key)) << "nothing was saved yet";
  store.save(key, four_processes());
  EXPECT_EQ(PlacementStore(folder / "deeper").find(key), four_processes());

  TunedPlacement folded = four_processes();
  folded.placement = {.ranks_per_device = 2, .colocation = Colocation::folded};
  store.save(key, folded);
  EXPECT_EQ(store.find(key), folded) << "the last one saved counts";
}

TEST(PlacementStore, SaysWhereItCannotWriteAndWhatToDo) {
  const TemporaryFolder folder;
  std::ofstream(folder / "file") << "no folder";
  const PlacementStore store(folder / "file" / "placements");
  const std::string message = message_of<InputError>([&] { store.save(key, four_processes()); });
  EXPECT_NE(
      message.find("file/placements' cannot be written: Not a directory; set TANDEM_CACHE_DIR"),
      std::string::npos)
      << message;
}

TEST(PlacementStore, AnotherKeyDoesNotMatch) {
  const TemporaryFolder folder;
  const PlacementStore store(folder.path());
  store.save(key, four_processes());
  for (std::size_t fact = 0; fact < key.size(); ++fact) {
    PlacementKey other = key;
    other[fact].second += "x";
    EXPECT_FALSE(store.find(other)) << key[fact].first;
  }
}

TEST(PlacementStore, AFileOfAnotherKeyDoesNotMatch) {
  const TemporaryFolder folder;
  const PlacementStore store(folder.path());
  PlacementKey other = key;
  other.back().second = "NVIDIA H100";
  store.save(other, four_processes());
  std::filesystem::rename(store.file(other), store.file(key));
  EXPECT_FALSE(store.find(key)) << "as where two keys share a hash";
}

TEST(PlacementStore, ADamagedFileIsToldAndIgnored) {
  const std::pair<const char*, const char*> damages[] = {
      {"{", ""},
      {"\"ranks_per_device\": 4", "\"ranks_per_device\": 0"},
      {"\"ranks_per_device\": 4", "\"ranks_per_device\": \"4\""},
      {"\"sm_percent\": 50", "\"sm_percent\": 101"},
      {"\"loader_workers\"", "\"workers\""},
      {"\"hosts\": 2", "\"hosts\": 0"},
      {"\"processes\"", "\"threads\""}};
  for (const auto& [from, to] : damages) {
    const TemporaryFolder folder;
    const PlacementStore store(folder.path());
    store.save(key, four_processes());
    replace_in(store.file(key), from, to);
    testing::internal::CaptureStderr();
    EXPECT_FALSE(store.find(key)) << from << " as " << to;
    const std::string told = testing::internal::GetCapturedStderr();
    EXPECT_NE(told.find(store.file(key).string()), std::string::npos) << told;
    EXPECT_NE(told.find("ignored"), std::string::npos) << told;
    store.save(key, four_processes());
    EXPECT_EQ(store.find(key), four_processes()) << "and can be written anew";
  }
}

TEST(PlacementStore, LiesInTheCacheFolder) {
  const TemporaryFolder folder;
  ::setenv("TANDEM_CACHE_DIR", folder.path().c_str(), 1);
  PlacementStore::of_user().save(key, four_processes());
  EXPECT_EQ(PlacementStore(folder / "placements").find(key), four_processes());
  ::setenv("TANDEM_CACHE_DIR", "", 1);
  ::unsetenv("XDG_CACHE_HOME");
  ::unsetenv("HOME");
  EXPECT_NE(message_of<InputError>([] { PlacementStore::of_user(); }).find("TANDEM_CACHE_DIR"),
            std::string::npos);
}

TEST(Placement, HasAText) {
  EXPECT_EQ(text_of(Placement{}), "one rank");
  EXPECT_EQ(text_of(four_processes().placement), "4 processes of 50 %");
  EXPECT_EQ(text_of({.ranks_per_device = 8, .colocation = Colocation::folded}), "8 folded");
}

}  // namespace
}  // namespace tandem
