#include "layers/layer_cases.h"

#include <ostream>

#include "layers/registry.h"

namespace tandem {
namespace {

/// The kernel normalises as x * scale + shift in float: what is left of a large mean is its
/// rounding, while the statistics are as good as ever.
constexpr double large_mean_tolerance = 2e-3;

const std::vector<LayerCase>& table() {
  static const std::vector<LayerCase> rows{
      {"add", "image", "", {{2, 5, 3, 7}, {2, 5, 3, 7}}},
      {"add", "matrix", "", {{3, 13}, {3, 13}}},
      {"add", "one", "", {{1, 1, 1, 1}, {1, 1, 1, 1}}},

      {"relu", "image", "", {{2, 5, 3, 7}}},
      {"relu", "matrix", "", {{1, 19}}},

      {"linear", "bias", "out=10", {{4, 13}}},
      {"linear", "plain", "out=3\nbias=false", {{5, 8}}},
      {"linear", "one", "out=1", {{1, 1}}},
      {"linear", "wide", "out=33", {{2, 64}}},

      {"global_average_pool", "odd", "", {{2, 7, 5, 3}}},
      {"global_average_pool", "wide", "", {{1, 4, 4, 16}}},
      {"global_average_pool", "pixel", "", {{3, 1, 1, 9}}},

      {"average_pool", "plain", "kernel=2", {{2, 6, 4, 3}}},
      {"average_pool", "ragged", "kernel=3\nstride=2\npadding=1", {{2, 7, 6, 5}}},
      {"average_pool", "padded", "kernel=2\nstride=2\npadding=1", {{1, 6, 5, 8}}},
      {"average_pool", "overlap", "kernel=3\nstride=1", {{1, 5, 5, 1}}},

      {"max_pool", "plain", "kernel=2", {{2, 6, 4, 3}}},
      {"max_pool", "stem", "kernel=3\nstride=2\npadding=1", {{2, 9, 8, 16}}},
      {"max_pool", "ragged", "kernel=3\nstride=2", {{1, 8, 6, 5}}},
      {"max_pool", "gaps", "kernel=2\nstride=3", {{2, 7, 8, 3}}},
      {"max_pool", "below_zero", "kernel=3\nstride=2\npadding=1", {{1, 5, 7, 4}}, -50.0F, 1.0F},

      {"batch_norm", "odd", "", {{2, 5, 3, 7}}},
      {"batch_norm", "wide", "", {{4, 3, 3, 32}}},
      {"batch_norm", "one_channel", "", {{3, 4, 5, 1}}},
      {"batch_norm", "batch_one", "", {{1, 4, 4, 3}}},
      {"batch_norm", "matrix", "", {{9, 5}}},
      {"batch_norm", "many_rows", "", {{3, 13, 11, 3}}},
      {"batch_norm", "options", "epsilon=0.1\nmomentum=0.4", {{2, 3, 3, 8}}},
      {"batch_norm", "large_mean", "", {{4, 9, 9, 5}}, 1000.0F, 0.5F, large_mean_tolerance},

      {"conv2d", "point", "out=5\nkernel=1", {{2, 5, 4, 3}}},
      {"conv2d", "point_stride", "out=16\nkernel=1\nstride=2", {{1, 7, 6, 8}}},
      {"conv2d", "three", "out=8\nkernel=3\npadding=1", {{2, 6, 5, 3}}},
      {"conv2d", "three_wide", "out=16\nkernel=3\npadding=1", {{1, 5, 7, 16}}},
      {"conv2d", "one_channel", "out=16\nkernel=3\npadding=1\nbias=true", {{2, 5, 5, 1}}},
      {"conv2d", "to_one_channel", "out=1\nkernel=3", {{1, 5, 6, 4}}},
      {"conv2d", "ragged_stride", "out=6\nkernel=3\nstride=2\npadding=1", {{2, 8, 7, 5}}},
      {"conv2d", "skipped_edge", "out=4\nkernel=2\nstride=3", {{1, 7, 9, 3}}},
      {"conv2d", "stem", "out=8\nkernel=7\nstride=2\npadding=3", {{2, 17, 14, 3}}},
      {"conv2d", "dilated", "out=4\nkernel=3\ndilation=2\npadding=2", {{1, 7, 6, 3}}},
      {"conv2d",
       "dilated_stride",
       "out=9\nkernel=3\ndilation=2\nstride=2\nbias=true",
       {{2, 9, 8, 8}}},
      {"conv2d", "groups", "out=6\nkernel=3\ngroups=2\npadding=1", {{2, 5, 4, 4}}},
      {"conv2d", "groups_bias", "out=16\nkernel=3\ngroups=2\nstride=2\nbias=true", {{1, 7, 7, 16}}},
      {"conv2d", "depthwise", "out=7\nkernel=3\ngroups=7\npadding=1", {{2, 6, 5, 7}}},
      {"conv2d",
       "depthwise_wide",
       "out=16\nkernel=3\ngroups=16\nstride=2\npadding=1",
       {{1, 7, 5, 16}}},
      {"conv2d",
       "depth_multiplier",
       "out=6\nkernel=3\ngroups=3\npadding=1\nbias=true",
       {{1, 4, 4, 3}}},
      {"conv2d", "bias", "out=8\nkernel=3\npadding=1\nbias=true", {{1, 4, 6, 8}}},

      {"conv_bn", "plain", "out=5\nkernel=3\npadding=1", {{2, 6, 5, 3}}},
      {"conv_bn", "relu", "out=8\nkernel=3\npadding=1\nrelu=true", {{2, 5, 5, 8}}},
      {"conv_bn", "add", "out=6\nkernel=1\nadd=true", {{2, 4, 5, 3}, {2, 4, 5, 6}}},
      {"conv_bn",
       "add_relu",
       "out=16\nkernel=3\nstride=2\npadding=1\nadd=true\nrelu=true",
       {{2, 7, 6, 16}, {2, 4, 3, 16}}},
      {"conv_bn",
       "options",
       "out=7\nkernel=3\npadding=1\nadd=true\nrelu=true\nepsilon=0.01\nmomentum=0.3",
       {{1, 6, 6, 7}, {1, 6, 6, 7}}},
      {"conv_bn", "stem", "out=16\nkernel=7\nstride=2\npadding=3\nrelu=true", {{2, 15, 13, 1}}},
      {"conv_bn", "groups", "out=8\nkernel=3\ngroups=2\nrelu=true", {{2, 6, 5, 6}}},
      {"conv_bn", "depthwise", "out=5\nkernel=3\ngroups=5\npadding=1", {{2, 5, 5, 5}}},
      {"conv_bn", "dilated", "out=3\nkernel=3\ndilation=2\nrelu=true", {{1, 9, 8, 3}}},
  };
  return rows;
}

}  // namespace

void PrintTo(const LayerCase& row, std::ostream* out) { *out << row.kind << " " << row.name; }

std::span<const LayerCase> layer_cases() { return table(); }

LayerPtr make_layer(const LayerCase& row) {
  const LayerKind* kind = find_layer_kind(row.kind);
  TANDEM_CHECK(kind != nullptr, "no layer is called '{}'", row.kind);
  const ConfigTable keys = ConfigTable::from_text(row.keys, row.kind + "." + row.name);
  LayerPtr layer = kind->from_config(keys);
  keys.finish();
  return layer;
}

}  // namespace tandem
