#include <cstdlib>

#include "cli/message_check.h"
#include "cli/run_folder.h"

// Libraries that cannot be loaded are told in one line before anything is trained. Broken ones,
// which the loader finds before those that the program was built with, stand for missing ones.

namespace tandem::cli {
namespace {

class MissingLibrary : public RunTest {
 protected:
  /// What `arguments` lead to where these libraries are broken.
  Outcome without(const std::vector<std::string>& libraries,
                  const std::vector<std::string>& arguments) const {
    std::filesystem::create_directory(path("broken"));
    for (const std::string& library : libraries) {
      write_file(path("broken/" + library), "no library\n");
    }
    const char* before = std::getenv("LD_LIBRARY_PATH");
    return run({.command = tandem(arguments),
                .folder = root(),
                .environment = {{"LD_LIBRARY_PATH", path("broken").string() + (before ? ":" : "") +
                                                        (before ? before : "")}}});
  }
};

TEST_F(MissingLibrary, ThatIsLinkedIsNamedByTheSystemsLoader) {
  for (const std::string library : {"libcudnn.so.9", "libnccl.so.2"}) {
    const Outcome outcome = without({library}, {"--version"});
    EXPECT_EQ(outcome.code, 127);
    EXPECT_NE(outcome.err.find("error while loading shared libraries: "), std::string::npos)
        << outcome.err;
    EXPECT_NE(outcome.err.find("/" + library + ": "), std::string::npos) << outcome.err;
    EXPECT_EQ(occurrences(outcome.err, "\n"), 1U) << outcome.err;
    std::filesystem::remove_all(path("broken"));
  }
}

/// A part of cuDNN under the names that it tries.
std::vector<std::string> names_of(const std::string& part) {
  return {"libcudnn_" + part + ".so.9", "libcudnn_" + part + ".so"};
}

std::string broken(const std::string& part) { return "broken/" + names_of(part).front(); }

const std::vector<std::string> parts{"graph", "ops", "heuristic", "engines_precompiled",
                                     "engines_runtime_compiled"};

TEST_F(MissingLibrary, ThatCudnnLoadsItselfIsNamedByTheDoctor) {
  EXPECT_NE(without({}, {"doctor"}).out.find("ok  cuDNN"), std::string::npos);
  for (const std::string& part : parts) {
    const Outcome outcome = without(names_of(part), {"doctor"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find(
                  "--  cuDNN       a part cannot be loaded: " + path(broken(part)).string() + ": "),
              std::string::npos)
        << outcome.out;
    EXPECT_EQ(outcome.err, "");
    std::filesystem::remove_all(path("broken"));
  }
}

class MissingLibraryOnAGpu : public MissingLibrary {};

TEST_F(MissingLibraryOnAGpu, ThatCudnnLoadsItselfIsNamedBeforeTraining) {
  for (const std::string& part : parts) {
    const Outcome outcome = without(
        names_of(part), {"train", "run.toml", "--out", "out", "--set", "train.device=cuda"});
    expect_one_message(outcome,
                       {"a part of cuDNN cannot be loaded: " + path(broken(part)).string() + ": ",
                        "; install all of cuDNN 9, or set train.device = \"cpu\""});
    EXPECT_FALSE(std::filesystem::exists(path("out/metrics.jsonl")));
    std::filesystem::remove_all(path("broken"));
  }
}

}  // namespace
}  // namespace tandem::cli
