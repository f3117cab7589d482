#include <filesystem>
#include <string>
#include <vector>

#include "fuzz_input.h"
#include "graph/model_file.h"
#include "optim/optimizer_config.h"
#include "train/checkpoints/checkpoint.h"
#include "train/checkpoints/model_weights.h"
#include "train/checkpoints/safetensors.h"

// A checkpoint, and a file of weights, for a small model.

namespace {

constexpr const char* model = R"(
classes = 2
channels = 1
size = 4
[[node]]
name = "conv1"
op = "conv2d"
out = 2
kernel = 3
[[node]]
name = "bn1"
op = "batch_norm"
[[node]]
name = "pool"
op = "global_average_pool"
[[node]]
name = "fc"
op = "classifier"
)";

struct Target {
  tandem::AnyContext context{tandem::CpuContext(1)};
  tandem::Graph graph = tandem::parse_model(model, "model.toml", {});
  tandem::ParameterStore store{graph, context, false};
  std::unique_ptr<tandem::Optimizer> optimizer =
      tandem::make_optimizer({.learning_rate = 0.1, .rule = tandem::SgdOptions{.momentum = 0.9F}},
                             context, store.all_values().elements(), {});
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem;
  static fuzz::MemoryFile bytes;
  static Target target;
  const auto& path = bytes.write({data, size});
  fuzz::refuse_or_read([&] {
    // With the checksum that a checkpoint must have, or nothing behind that check would be reached.
    const SafetensorsFile file(path);
    const std::vector<NamedTensor> tensors(file.tensors().begin(), file.tensors().end());
    SafetensorsMetadata metadata = file.metadata();
    metadata.erase(std::string(safetensors_checksum_key));
    static const std::filesystem::path sealed = fuzz::memory_folder() / "sealed.safetensors";
    write_safetensors(sealed, tensors, metadata, WriteChecksum::yes);
    load_checkpoint(
        sealed, target.store, *target.optimizer,
        {.steps_per_epoch = 4, .seed = 1, .global_batch = 4, .samples = 16, .model = "tiny"});
  });
  fuzz::refuse_or_read([&] { load_weights(SafetensorsFile(path), target.store); });
  return 0;
}
