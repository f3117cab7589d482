#include <fmt/format.h>

#include "cli/message_check.h"
#include "cli/run_folder.h"
#include "device/open_context.h"

// What a user can get wrong: one line that names the place, exit code 2 within seconds, on one rank
// and on two, and nothing lost.

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

/// Files that some cases need, in `root`.
using Prepare = void (*)(const fs::path& root);

struct Case {
  const char* name;
  std::vector<std::string> arguments;
  std::vector<std::string> parts;  ///< of the message
  Prepare prepare = nullptr;
  int least_ranks = 1;
};

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(value >> shift & 0xFFU);
  return bytes;
}

/// 40 gray images of 8 x 8 with labels 0..3, as four IDX files.
void write_idx(const fs::path& root) {
  const std::string images =
      big_endian(0x803) + big_endian(40) + big_endian(8) + big_endian(8) + std::string(2560, 'x');
  std::string labels = big_endian(0x801) + big_endian(40);
  for (int i = 0; i < 40; ++i) labels += static_cast<char>(i % 4);
  for (const char* set : {"train", "test"}) {
    write_file(root / (std::string(set) + "-images"), images);
    write_file(root / (std::string(set) + "-labels"), labels);
  }
  replace_in(root / "run.toml",
             "kind = \"synthetic\"\ntrain_size = 270\ntest_size = 70\nheight = 8\nwidth = 8\n",
             "kind = \"idx\"\ntrain_images = \"train-images\"\ntrain_labels = \"train-labels\"\n"
             "test_images = \"test-images\"\ntest_labels = \"test-labels\"\n");
}

void write_model(const fs::path& root, const std::string& nodes) {
  write_file(root / "bad.toml", "channels = 1\nsize = 8\nclasses = 4\n" + nodes);
}

std::vector<Case> cases() {
  return {
      {"UnknownKey",
       {},
       {"run.toml:20: train.globl_batch: unknown key", "did you mean 'global_batch'?"},
       [](const fs::path& root) {
         replace_in(root / "run.toml", "global_batch = 32", "global_batch = 32\nglobl_batch = 3");
       }},
      {"UnknownKeyOnTheCommandLine",
       set({"optimizer.momentun=0.5"}),
       {"--set optimizer.momentun=0.5", "unknown key", "did you mean 'momentum'?"}},
      {"KeyOfAnotherOptimizer",
       set({"optimizer.kind=adamw", "optimizer.nesterov=unset"}),
       {"run.toml:26: optimizer.momentum: unknown key; known here: ", "optimizer.momentum=unset"}},
      {"KeyOfAnotherTable",
       set({"train.lr=0.5"}),
       {"--set train.lr=0.5: train.lr: unknown key (did you mean 'optimizer.lr'?)"}},
      {"CommentAsKey", set({"#a=1"}), {"--set #a=1: expected key=value"}},
      {"TableAsKey", set({"[train]#=1"}), {"--set [train]#=1: expected key=value"}},
      {"EmptyKeyPart", set({"train..epochs=1"}), {"--set train..epochs=1: expected key=value"}},
      {"InfiniteMilestone",
       set({"schedule.kind=step", "schedule.milestones=[inf]"}),
       {"milestones: inf does not follow 0; expected ascending epochs above 0, at most 1000000"}},
      {"StochasticDepthOfAModelWithoutIt",
       {},
       {"run.toml:3: model.stochastic_depth: no block of resnet8 takes stochastic depth"},
       [](const fs::path& root) {
         replace_in(root / "run.toml", "\"resnet8\"\n", "\"resnet8\"\nstochastic_depth = 0.1\n");
       }},
      {"UnknownTable",
       {},
       {"run.toml:1: modle: unknown key (did you mean 'model'?)"},
       [](const fs::path& root) {
         replace_in(root / "run.toml", "[model]\n", "[modle]\na = 1\n[model]\n");
       }},
      {"WrongType",
       {},
       {"run.toml:18: train.epochs: expected an integer, found a string"},
       [](const fs::path& root) { replace_in(root / "run.toml", "epochs = 4", "epochs = \"4\""); }},
      {"OutOfRange",
       {},
       {"run.toml:26: optimizer.momentum: 1.5 is out of range"},
       [](const fs::path& root) {
         replace_in(root / "run.toml", "momentum = 0.9", "momentum = 1.5");
       }},
      {"MomentumThatRoundsToOne",
       set({"optimizer.momentum=0.99999999"}),
       {"--set optimizer.momentum=0.99999999: optimizer.momentum: 0.99999999 is 1 in single "
        "precision; expected less"}},
      {"FrozenBuffer",
       set({"train.freeze=bn1.running_mean"}),
       {"--set train.freeze=bn1.running_mean: train.freeze: 'bn1.running_mean' is the beginning of "
        "no parameter's name in resnet8"}},
      {"NotToml",
       {},
       {"run.toml:2: not valid TOML"},
       [](const fs::path& root) { replace_in(root / "run.toml", "name = ", "name "); }},
      {"NoConfig",
       {},
       {"run.toml", "no such file"},
       [](const fs::path& root) { fs::remove(root / "run.toml"); }},
      {"SetWithoutValue", {"--set", "optimizer.lr"}, {"--set optimizer.lr: expected key=value"}},
      {"UnknownModel",
       {},
       {"run.toml:2: model.name: no model is called 'resnet9' (did you mean 'resnet8'?)"},
       [](const fs::path& root) { replace_in(root / "run.toml", "resnet8", "resnet9"); }},
      {"ModelFileThatIsNotThere",
       {},
       {"run.toml:2: model.name: ./resnet9.toml: no such file; give the path of a TOML file"},
       [](const fs::path& root) { replace_in(root / "run.toml", "resnet8", "./resnet9.toml"); }},
      {"ModelWithACycle",
       set({"model.name=./bad.toml"}),
       {"bad.toml:7: ", "a", "from", "the nodes form a cycle: "},
       [](const fs::path& root) {
         write_model(root,
                     "[[node]]\nname = \"a\"\nop = \"relu\"\nfrom = \"b\"\n"
                     "[[node]]\nname = \"b\"\nop = \"relu\"\nfrom = \"a\"\n"
                     "[[node]]\nname = \"fc\"\nop = \"classifier\"\n");
       }},
      {"ImpossibleShape",
       set({"model.name=./bad.toml"}),
       {"bad.toml:6: ", "'big' (conv2d)", "8", "11"},
       [](const fs::path& root) {
         write_model(root,
                     "[[node]]\nname = \"big\"\nop = \"conv2d\"\nout = 4\nkernel = 11\n"
                     "[[node]]\nname = \"fc\"\nop = \"classifier\"\n");
       }},
      {"LabelOutOfRange",
       {},
       {"train-labels", "label 9", "4 classes"},
       [](const fs::path& root) {
         write_idx(root);
         std::string labels = read_file(root / "train-labels");
         labels[8 + 33] = 9;
         write_file(root / "train-labels", labels);
       }},
      {"MissingDataFile",
       {},
       {"run.toml:9: data.test_labels: test-labels: no such file"},
       [](const fs::path& root) {
         write_idx(root);
         fs::remove(root / "test-labels");
       }},
      {"TruncatedDataFile",
       {},
       {"test-images: truncated: the header announces 40x8x8"},
       [](const fs::path& root) {
         write_idx(root);
         fs::resize_file(root / "test-images", 2000);
       }},
      {"DataSetSmallerThanOneBatch",
       {},
       {"run.toml:19: train.global_batch: the training set has 20 samples, fewer than one global "
        "batch of 32"},
       [](const fs::path& root) {
         replace_in(root / "run.toml", "train_size = 270", "train_size = 20");
       }},
      {"BatchThatDoesNotDivide",
       set({"train.accumulate=3"}),
       {"run.toml:19: train.global_batch: global batch 32 does not divide by ",
        "x 3 micro-batches"}},
      {"FoldedRanksThatDoNotDivideTheBatch",
       set({"parallel.folded_ranks=3"}),
       {"run.toml:19: train.global_batch: global batch 32 does not divide by ",
        " ranks (3 a process); take a multiple of "}},
      {"ImagesThatDoNotFitTheMemory",
       set({"data.size=1000", "train.global_batch=1048576", "data.train_size=1048576"}),
       {"training does not fit the memory of this host: ", " of activations for ",
        " are available; about ", " at once fit",
        ": lower train.global_batch or data.size, or raise train.accumulate"}},
      {"ThreadsThatOnlyWaitForOneAnother",
       set({"train.threads=4096"}),
       {"train.threads is 4096, and this host has ", " or fewer, or leave it out"}},
      {"ImagesThatNoLayerTakes",
       set({"data.height=60000", "data.width=60000"}),
       {"resnet8.toml:", "layer 'conv1' (conv2d) would have an output of 1x60000x60000x16"}},
      {"ResumeWithoutCheckpoint",
       {"--resume"},
       {"--resume: no checkpoint in out/checkpoints; give a checkpoint or the folder of a run that "
        "has one, or leave --resume out to start anew"}},
      {"ResumeFromAFolderWithoutCheckpoint",
       {"--resume", "."},
       {"--resume .: no checkpoint in ./checkpoints; ", "leave --resume out to start anew"}},
      {"ResumeFromNowhere",
       {"--resume", "else"},
       {"--resume else: no such file or folder; give a checkpoint or the folder of a run",
        "leave --resume out to start anew"}},
      {"ResumeFromNoCheckpoint", {"--resume", "run.toml"}, {"run.toml"}},
      {"InitFromNowhere",
       {},
       {"run.toml:19: train.init: cannot read 'w.safetensors': No such file or directory; give a "
        "checkpoint or a weights file (.safetensors)"},
       [](const fs::path& root) {
         replace_in(root / "run.toml", "global_batch", "init = \"w.safetensors\"\nglobal_batch");
       }},
      {"InitFromAFolder",
       set({"train.init=."}),
       {"--set train.init=.: train.init: '.' is a folder; give a checkpoint or a weights file"}},
      {"InitFromNoWeights",
       set({"train.init=w.safetensors"}),
       {"--set train.init=w.safetensors: train.init: 'w.safetensors' is no sound safetensors file"},
       [](const fs::path& root) { write_file(root / "w.safetensors", "no weights"); }},
  };
}

class BadInput : public RunTest,
                 public testing::WithParamInterface<std::tuple<int, std::size_t>> {};

TEST_P(BadInput, IsOneLineAndCodeTwoAndLeavesNoRun) {
  const auto [ranks, index] = GetParam();
  const Case each = cases()[index];
  if (each.prepare != nullptr) each.prepare(root());
  expect_one_message(train("out", each.arguments, ranks), each.parts);
  EXPECT_FALSE(fs::exists(path("out")));
}

INSTANTIATE_TEST_SUITE_P(Cases, BadInput,
                         testing::Combine(testing::Values(1, 2),
                                          testing::Range<std::size_t>(0, cases().size())),
                         [](const testing::TestParamInfo<BadInput::ParamType>& each) {
                           return fmt::format("{}On{}", cases()[std::get<1>(each.param)].name,
                                              std::get<0>(each.param));
                         });

// Whatever this machine has, the program sees none.
TEST_F(RunTest, ARunThatIsToTakeAGpuIsRefusedWhereNoneIsSeen) {
  const std::vector<std::string> parts =
      built_with_cuda()
          ? std::vector<std::string>{"rank 0 on host ", " sees no GPU; look at nvidia-smi",
                                     "or set train.device = \"cpu\""}
          : std::vector<std::string>{"built without CUDA", "(TANDEM_CUDA=ON ./quickstart.sh)",
                                     "or set train.device = \"cpu\""};
  for (const int ranks : {1, 2}) {
    const Outcome outcome = run({.command = train_command("out", set({"train.device=cuda"}), ranks),
                                 .folder = root(),
                                 .environment = {{"CUDA_VISIBLE_DEVICES", "-1"}}});
    expect_one_message(outcome, parts);
    EXPECT_FALSE(fs::exists(path("out")));
  }
}

}  // namespace
}  // namespace tandem::cli
