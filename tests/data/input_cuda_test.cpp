#include "data/input_cuda.h"

#include <gtest/gtest.h>

#include <cmath>
#include <ostream>

#include "data/raw_cases.h"
#include "device/arena.h"
#include "device/memory.h"
#include "tensor/convert.h"

// The device's finishing of raw batches against the floats that loaders make on the host.

namespace tandem::testing {
namespace {

/// A raw batch on the device.
RawBatchView on_device(AnyContext& context, const RawBatchView& batch, const RawBatchLayout& layout,
                       const Arena& memory) {
  copy_to_device(context, batch.memory.data(), batch.memory.size(), memory.data());
  return layout.view(memory.data());
}

/// Of the largest value's size, twice the rounding to the type.
double relative_tolerance(DType dtype) {
  if (dtype == DType::bf16) return 0x1.0p-8;
  return dtype == DType::f16 ? 0x1.0p-10 : 0.0;
}

class InputOnDevice : public ::testing::TestWithParam<RawCase> {
 protected:
  void compare(DType dtype) {
    const RawCase& made = GetParam();
    RawCaseLoaders loaders(made);
    const RawBatchLayout layout = loaders.raw->raw_layout();
    const Arena memory(context, layout.bytes(), "a raw batch");
    const Shape shape{made.batch, made.transform.size, made.transform.size,
                      made.transform.channels};
    const auto count = static_cast<std::size_t>(shape.elements());
    const Arena images(context, count * size_of(dtype), "a test");
    const Arena floats(context, count * sizeof(float), "a test");
    const std::vector<float> poison(count, NAN);
    std::vector<float> found(count);
    for (int step = 0; step < 6; ++step) {
      const RawBatchView batch = on_device(context, loaders.raw->next()->raw, layout, memory);
      const Tensor out(images.data(), shape, dtype);
      const Tensor widened(floats.data(), shape);
      copy_to_device(context, poison.data(), count * sizeof(float), floats.data());
      convert(context, widened, out);
      enqueue_input(cuda(), batch, InputSpec(loaders.transform()), out);
      convert(context, out, widened);
      copy_to_host(context, floats.data(), count * sizeof(float), found.data());
      const auto wanted = loaders.floats->next()->images.span<float>();
      for (std::size_t i = 0; i < count; ++i) {
        const double tolerance =
            raw_tolerance(made) + relative_tolerance(dtype) * std::abs(double{wanted[i]});
        ASSERT_NEAR(found[i], wanted[i], tolerance) << "step " << step << ", value " << i;
      }
    }
  }

  CudaContext& cuda() { return std::get<CudaContext>(context); }

  AnyContext context{std::in_place_type<CudaContext>, 0};
};

TEST_P(InputOnDevice, IsTheHosts) { compare(DType::f32); }
TEST_P(InputOnDevice, IsTheHostsInBf16) { compare(DType::bf16); }
TEST_P(InputOnDevice, IsTheHostsInF16) { compare(DType::f16); }

INSTANTIATE_TEST_SUITE_P(Table, InputOnDevice, ::testing::ValuesIn(raw_cases()),
                         [](const auto& made) { return made.param.name; });

TEST(InputOnDeviceChecks, RefusesWhatDoesNotFit) {
  AnyContext context(std::in_place_type<CudaContext>, 0);
  auto& cuda = std::get<CudaContext>(context);
  const RawBatchLayout layout({.height = 8, .width = 8, .channels = 1}, 2, false);
  const Arena memory(context, layout.bytes(), "a test");
  const Arena images(context, 4096, "a test");
  const RawBatchView batch = layout.view(memory.data());
  const InputSpec spec(Transform(raw_options(8, 1)));
  const auto enqueue = [&](const Shape& shape) {
    enqueue_input(cuda, batch, spec, Tensor(images.data(), shape));
  };
  enqueue({2, 8, 8, 1});
  EXPECT_THROW(enqueue({3, 8, 8, 1}), Error);
  EXPECT_THROW(enqueue({2, 8, 7, 1}), Error);
  EXPECT_THROW(enqueue({2, 8, 8, 3}), Error);
  synchronize(context);
}

}  // namespace
}  // namespace tandem::testing
