#include "graph/small_models.h"

#include "base/philox.h"
#include "graph/model_file.h"
#include "tensor/host_tensor.h"

namespace tandem {

Batch::Batch(const Graph& graph, std::int64_t size, std::uint64_t seed)
    : image_shape(with_batch(graph.input(), size)) {
  RandomStream random(seed, "batch");
  pixels.resize(static_cast<std::size_t>(image_shape.elements()));
  for (float& pixel : pixels) pixel = random.normal();
  for (std::int64_t n = 0; n < size; ++n) {
    labels.push_back(static_cast<std::int32_t>(3 * n % graph.output()[1]));
  }
}

Graph smooth_model() {
  return parse_model(R"(
channels = 2
size = 7
classes = 4
node = [
  {name = "stem", op = "conv2d", out = 5, kernel = 3, padding = 1},
  {name = "stem_norm", op = "batch_norm"},
  {name = "main", op = "conv2d", out = 6, kernel = 3, stride = 2, padding = 1},
  {name = "main_norm", op = "batch_norm"},
  {name = "short", op = "conv2d", out = 6, kernel = 1, stride = 2, from = "stem_norm"},
  {name = "short_norm", op = "batch_norm"},
  {name = "third", op = "average_pool", kernel = 1, stride = 2, from = "stem_norm"},
  {name = "third_conv", op = "conv2d", out = 6, kernel = 1, bias = true},
  {name = "sum", op = "add", from = ["main_norm", "short_norm"]},
  {name = "sum3", op = "add", from = ["sum", "third_conv"]},
  {name = "twice", op = "add", from = ["sum3", "sum3"]},
  {name = "grouped", op = "conv2d", out = 4, kernel = 3, groups = 2},
  {name = "pool", op = "global_average_pool"},
  {name = "fc", op = "classifier"},
]
)",
                     "smooth.toml", {});
}

Graph zoo_model(const std::string& name) { return load_model(find_model(name), {}); }

AnyContext cpu(int threads) { return AnyContext(std::in_place_type<CpuContext>, threads); }

void scatter_parameters(AnyContext& context, ParameterStore& store, std::uint64_t seed) {
  store.initialize(seed);
  for (std::size_t i = 0; i < store.parameters().size(); ++i) {
    if (store.parameters()[i].role != ParameterRole::norm) continue;
    RandomStream random(seed, "scatter " + store.parameters()[i].name);
    HostTensor values(context, store.value(i));
    for (float& value : values.tensor().span<float>()) value += 0.3F * random.normal();
    values.write_back();
  }
}

std::vector<float> copy_of(const Tensor& tensor) {
  return {tensor.span<float>().begin(), tensor.span<float>().end()};
}

}  // namespace tandem
