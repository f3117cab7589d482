#include "layers/layer_cases.h"

#include <cmath>
#include <ostream>

#include "base/philox.h"
#include "layers/convolution/conv_bn_pair.h"
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
      {"add", "packs", "", {{3, 5, 7, 24}, {3, 5, 7, 24}}},

      {"relu", "image", "", {{2, 5, 3, 7}}},
      {"relu", "matrix", "", {{1, 19}}},

      {"relu6", "image", "", {{2, 5, 3, 7}}, 2.0F, 4.0F},
      {"relu6", "matrix", "", {{1, 19}}, 3.0F, 5.0F},
      {"silu", "image", "", {{2, 5, 3, 7}}, 0.0F, 3.0F},
      {"silu", "matrix", "", {{3, 23}}, -2.0F, 10.0F},
      {"sigmoid", "image", "", {{2, 5, 3, 7}}, 0.0F, 3.0F},
      {"sigmoid", "matrix", "", {{3, 23}}, 0.0F, 30.0F},

      {"channel_scale", "image", "", {{2, 5, 3, 7}, {2, 1, 1, 7}}},
      {"channel_scale", "wide", "", {{3, 2, 3, 150}, {3, 1, 1, 150}}},
      {"channel_scale", "pixel", "", {{2, 1, 1, 5}, {2, 1, 1, 5}}},
      {"channel_scale", "packs", "", {{3, 7, 5, 24}, {3, 1, 1, 24}}},
      {"channel_scale", "pairs", "", {{2, 6, 9, 58}, {2, 1, 1, 58}}},

      {"channel_slice", "front", "count=3", {{2, 5, 3, 7}}},
      {"channel_slice", "middle", "first=2\ncount=4", {{2, 4, 3, 9}}},
      {"channel_slice", "half", "first=29\ncount=29", {{1, 3, 3, 58}}},
      {"channel_slice", "all", "count=5", {{1, 2, 2, 5}}},
      {"channel_slice", "packs", "first=8\ncount=16", {{2, 5, 3, 32}}},
      {"channel_slice", "pairs", "first=58\ncount=58", {{1, 4, 3, 116}}},

      {"shuffle_join", "equal", "", {{2, 5, 3, 7}, {2, 5, 3, 7}}},
      {"shuffle_join", "half", "", {{2, 3, 4, 58}, {2, 3, 4, 29}}},
      {"shuffle_join", "one", "", {{1, 1, 1, 2}, {1, 1, 1, 1}}},
      {"shuffle_join", "packs", "", {{2, 5, 3, 16}, {2, 5, 3, 16}}},
      {"shuffle_join", "half_packs", "", {{2, 3, 4, 24}, {2, 3, 4, 8}}},

      {"dropout", "matrix", "rate=0.4", {{5, 37}}},
      {"dropout", "image", "rate=0.2", {{3, 3, 5, 7}}},
      {"dropout", "none", "rate=0.0", {{2, 9}}},
      {"dropout", "packs", "rate=0.3", {{3, 3, 5, 8}}},
      {"stochastic_depth", "image", "rate=0.5", {{9, 3, 2, 5}}},
      {"stochastic_depth", "rare", "rate=0.1", {{4, 5, 1, 3}}},
      {"stochastic_depth", "packs", "rate=0.5", {{7, 3, 3, 16}}},

      {"linear", "bias", "out=10", {{4, 13}}},
      {"linear", "plain", "out=3\nbias=false", {{5, 8}}},
      {"linear", "one", "out=1", {{1, 1}}},
      {"linear", "fan_out", "out=6\ninit=\"fan_out\"", {{2, 5}}},
      {"linear", "wide", "out=33", {{2, 64}}},
      {"linear", "many_rows", "out=24", {{300, 16}}},

      {"global_average_pool", "odd", "", {{2, 7, 5, 3}}},
      {"global_average_pool", "wide", "", {{1, 4, 4, 16}}},
      {"global_average_pool", "image", "keep_image=true", {{2, 4, 6, 5}}},
      {"global_average_pool", "pixel", "", {{3, 1, 1, 9}}},
      {"global_average_pool", "packs", "", {{3, 7, 7, 24}}},

      {"average_pool", "plain", "kernel=2", {{2, 6, 4, 3}}},
      {"average_pool", "ragged", "kernel=3\nstride=2\npadding=1", {{2, 7, 6, 5}}},
      {"average_pool", "padded", "kernel=2\nstride=2\npadding=1", {{1, 6, 5, 8}}},
      {"average_pool", "overlap", "kernel=3\nstride=1", {{1, 5, 5, 1}}},
      {"average_pool", "packs", "kernel=3\nstride=2\npadding=1", {{2, 7, 6, 24}}},

      {"max_pool", "plain", "kernel=2", {{2, 6, 4, 3}}},
      {"max_pool", "stem", "kernel=3\nstride=2\npadding=1", {{2, 9, 8, 16}}},
      {"max_pool", "ragged", "kernel=3\nstride=2", {{1, 8, 6, 5}}},
      {"max_pool", "gaps", "kernel=2\nstride=3", {{2, 7, 8, 3}}},
      {"max_pool", "below_zero", "kernel=3\nstride=2\npadding=1", {{1, 5, 7, 4}}, -50.0F, 1.0F},
      {"max_pool", "packs", "kernel=3\nstride=2\npadding=1", {{2, 7, 10, 24}}},
      {"max_pool", "halves", "kernel=2", {{2, 6, 5, 16}}},
      {"max_pool", "overlap", "kernel=3\nstride=1\npadding=1", {{1, 5, 6, 16}}},
      {"max_pool", "overlap_odd", "kernel=3\nstride=1\npadding=1", {{2, 4, 5, 3}}},
      {"max_pool", "pairs", "kernel=3\nstride=2\npadding=1", {{1, 9, 6, 10}}},
      {"max_pool", "halves_padded", "kernel=2\nstride=2\npadding=1", {{2, 6, 5, 4}}},
      {"max_pool", "large", "kernel=17\nstride=2\npadding=3", {{1, 14, 13, 8}}},

      {"batch_norm", "odd", "", {{2, 5, 3, 7}}},
      {"batch_norm", "wide", "", {{4, 3, 3, 32}}},
      {"batch_norm", "one_channel", "", {{3, 4, 5, 1}}},
      {"batch_norm", "batch_one", "", {{1, 4, 4, 3}}},
      {"batch_norm", "matrix", "", {{9, 5}}},
      {"batch_norm", "many_rows", "", {{3, 13, 11, 3}}},
      {"batch_norm", "wide_many_rows", "", {{2, 9, 8, 72}}},
      {"batch_norm", "even_many_rows", "", {{3, 9, 7, 58}}},
      {"batch_norm", "odd_wide", "", {{1, 5, 3, 83}}},
      {"batch_norm", "two_blocks", "", {{5, 11, 13, 24}}},
      {"batch_norm", "pairs_in_blocks", "", {{3, 23, 19, 10}}},
      {"batch_norm", "options", "epsilon=0.1\nmomentum=0.4", {{2, 3, 3, 8}}},
      {"batch_norm", "large_mean", "", {{4, 9, 9, 5}}, 1000.0F, 0.5F, large_mean_tolerance},
      in_groups(2, {"batch_norm", "odd", "", {{4, 5, 3, 7}}}),
      in_groups(4, {"batch_norm", "wide", "", {{8, 3, 3, 32}}}),
      in_groups(2, {"batch_norm", "matrix", "", {{12, 5}}}),
      in_groups(4, {"batch_norm", "sample_each", "", {{4, 13, 11, 3}}}),
      in_groups(3, {"batch_norm", "even", "", {{6, 5, 3, 58}}}),
      in_groups(4, {"batch_norm", "pairs", "", {{8, 11, 6, 10}}}),
      in_groups(2, {"batch_norm", "two_blocks", "", {{10, 11, 13, 24}}}),
      in_groups(2, {"batch_norm", "options", "epsilon=0.1\nmomentum=0.4", {{4, 3, 3, 8}}}),
      in_groups(
          2, {"batch_norm", "large_mean", "", {{4, 9, 9, 5}}, 1000.0F, 0.5F, large_mean_tolerance}),

      {"conv2d", "point", "out=5\nkernel=1", {{2, 5, 4, 3}}},
      {"conv2d", "point_stride", "out=16\nkernel=1\nstride=2", {{1, 7, 6, 8}}},
      {"conv2d", "three", "out=8\nkernel=3\npadding=1", {{2, 6, 5, 3}}},
      {"conv2d", "three_wide", "out=16\nkernel=3\npadding=1", {{1, 5, 7, 16}}},
      {"conv2d", "blocks", "out=64\nkernel=3\npadding=1", {{1, 3, 3, 64}}},
      {"conv2d", "blocks_of_48", "out=48\nkernel=3\npadding=1", {{2, 2, 3, 48}}},
      {"conv2d", "blocks_stride", "out=32\nkernel=3\nstride=2\npadding=1", {{2, 4, 4, 96}}},
      {"conv2d", "blocks_of_8", "out=24\nkernel=3\npadding=1", {{2, 3, 4, 8}}},
      {"conv2d", "point_blocks", "out=64\nkernel=1", {{2, 4, 3, 32}}},
      {"conv2d", "point_blocks_stride", "out=32\nkernel=1\nstride=2", {{1, 6, 6, 48}}},
      {"conv2d", "one_channel", "out=16\nkernel=3\npadding=1\nbias=true", {{2, 5, 5, 1}}},
      {"conv2d", "to_one_channel", "out=1\nkernel=3", {{1, 5, 6, 4}}},
      {"conv2d", "ragged_stride", "out=6\nkernel=3\nstride=2\npadding=1", {{2, 8, 7, 5}}},
      {"conv2d", "skipped_edge", "out=4\nkernel=2\nstride=3", {{1, 7, 9, 3}}},
      {"conv2d", "stem", "out=8\nkernel=7\nstride=2\npadding=3", {{2, 17, 14, 3}}},
      {"conv2d", "small_stem", "out=8\nkernel=3\nstride=2\npadding=1", {{2, 9, 12, 3}}},
      {"conv2d", "patches", "out=16\nkernel=4\nstride=4", {{2, 12, 8, 3}}},
      {"conv2d", "pixel", "out=24\nkernel=3\npadding=1", {{5, 1, 1, 16}}},
      {"conv2d", "pixel_stride", "out=8\nkernel=5\nstride=2\npadding=2", {{3, 1, 1, 8}}},
      {"conv2d", "pixel_odd", "out=7\nkernel=3\npadding=1", {{4, 1, 1, 5}}},
      {"conv2d", "pixel_dilated", "out=8\nkernel=3\ndilation=2\npadding=2", {{3, 1, 1, 8}}},
      {"conv2d", "pixel_groups", "out=6\nkernel=3\ngroups=2\npadding=1\nbias=true", {{3, 1, 1, 6}}},
      {"conv2d", "five_over_two", "out=8\nkernel=5\npadding=2", {{3, 2, 2, 7}}},
      {"conv2d", "corner", "out=16\nkernel=3\nstride=2\npadding=1", {{5, 2, 2, 8}}},
      {"conv2d", "two_by_two", "out=8\nkernel=3\npadding=1", {{5, 2, 2, 16}}},
      {"conv2d", "four_by_three", "out=8\nkernel=3\nstride=2\npadding=1", {{2, 4, 3, 8}}},
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
      {"conv2d", "depthwise_one_block", "out=9\nkernel=3\ngroups=9\npadding=1", {{2, 6, 11, 9}}},
      {"conv2d", "depthwise_58", "out=58\nkernel=3\ngroups=58\npadding=1", {{2, 7, 6, 58}}},
      {"conv2d",
       "depthwise_58_stride",
       "out=58\nkernel=3\ngroups=58\nstride=2\npadding=1",
       {{2, 8, 9, 58}}},
      {"conv2d", "depthwise_five", "out=20\nkernel=5\ngroups=20\npadding=2", {{2, 9, 7, 20}}},
      {"conv2d",
       "depthwise_five_stride",
       "out=19\nkernel=5\ngroups=19\nstride=2\npadding=2\nbias=true",
       {{2, 10, 7, 19}}},
      {"conv2d",
       "depthwise_five_stride_even",
       "out=16\nkernel=5\ngroups=16\nstride=2\npadding=2",
       {{2, 11, 12, 16}}},
      {"conv2d", "depthwise_tall", "out=6\nkernel=3\ngroups=6\npadding=1", {{1, 37, 6, 6}}},
      {"conv2d",
       "depthwise_tiles",
       "out=394\nkernel=3\ngroups=394\nstride=2\npadding=1",
       {{1, 3, 2, 394}}},
      {"conv2d", "depthwise_seven", "out=24\nkernel=7\ngroups=24\npadding=3", {{1, 9, 10, 24}}},
      {"conv2d", "depthwise_small", "out=3\nkernel=3\ngroups=3\nbias=true", {{2, 5, 9, 3}}},
      {"conv2d", "depthwise_pixel", "out=16\nkernel=5\ngroups=16\npadding=2", {{3, 1, 1, 16}}},
      {"conv2d",
       "depthwise_dilated",
       "out=17\nkernel=3\ngroups=17\ndilation=2\nstride=3\npadding=2",
       {{2, 11, 13, 17}}},
      {"conv2d", "depthwise_gaps", "out=10\nkernel=1\ngroups=10\nstride=2", {{2, 6, 5, 10}}},
      {"conv2d", "depthwise_even", "out=8\nkernel=4\ngroups=8\npadding=1", {{1, 7, 7, 8}}},
      {"conv2d", "depthwise_nine", "out=8\nkernel=9\ngroups=8\npadding=4", {{1, 6, 7, 8}}},
      {"conv2d", "depthwise_bands", "out=8\nkernel=3\ngroups=8\npadding=1", {{1, 3, 300, 8}}},
      {"conv2d",
       "depth_multiplier",
       "out=6\nkernel=3\ngroups=3\npadding=1\nbias=true",
       {{1, 4, 4, 3}}},
      {"conv2d", "many_groups", "out=48\nkernel=3\ngroups=3\nstride=2\npadding=1", {{2, 9, 8, 24}}},
      {"conv2d", "wide_border", "out=4\nkernel=2\npadding=3", {{1, 4, 5, 3}}},
      {"conv2d", "point_rows", "out=10\nkernel=1\nbias=true", {{3, 11, 13, 12}}},
      {"conv2d", "point_wide", "out=72\nkernel=1\nbias=true", {{2, 5, 7, 40}}},
      {"conv2d", "bias", "out=8\nkernel=3\npadding=1\nbias=true", {{1, 4, 6, 8}}},

      {"conv_bn", "plain", "out=5\nkernel=3\npadding=1", {{2, 6, 5, 3}}},
      {"conv_bn", "relu", "out=8\nkernel=3\npadding=1\nactivation=\"relu\"", {{2, 5, 5, 8}}},
      {"conv_bn", "add", "out=6\nkernel=1\nadd=true", {{2, 4, 5, 3}, {2, 4, 5, 6}}},
      {"conv_bn",
       "add_relu",
       "out=16\nkernel=3\nstride=2\npadding=1\nadd=true\nactivation=\"relu\"",
       {{2, 7, 6, 16}, {2, 4, 3, 16}}},
      {"conv_bn",
       "options",
       "out=7\nkernel=3\npadding=1\nadd=true\nactivation=\"relu\"\nepsilon=0.01\nmomentum=0.3",
       {{1, 6, 6, 7}, {1, 6, 6, 7}}},
      {"conv_bn",
       "stem",
       "out=16\nkernel=7\nstride=2\npadding=3\nactivation=\"relu\"",
       {{2, 15, 13, 1}}},
      {"conv_bn", "groups", "out=8\nkernel=3\ngroups=2\nactivation=\"relu\"", {{2, 6, 5, 6}}},
      {"conv_bn",
       "pixel",
       "out=8\nkernel=3\npadding=1\nadd=true\nactivation=\"relu\"",
       {{5, 1, 1, 8}, {5, 1, 1, 8}}},
      {"conv_bn", "depthwise", "out=5\nkernel=3\ngroups=5\npadding=1", {{2, 5, 5, 5}}},
      {"conv_bn", "relu6", "out=8\nkernel=3\npadding=1\nactivation=\"relu6\"", {{2, 5, 5, 8}}},
      {"conv_bn", "silu", "out=8\nkernel=3\npadding=1\nactivation=\"silu\"", {{2, 5, 5, 8}}},
      {"conv_bn",
       "add_relu6",
       "out=6\nkernel=1\nadd=true\nactivation=\"relu6\"",
       {{2, 4, 5, 3}, {2, 4, 5, 6}}},
      {"conv_bn",
       "depthwise_silu",
       "out=21\nkernel=5\ngroups=21\nstride=2\npadding=2\nactivation=\"silu\"",
       {{2, 9, 8, 21}}},
      {"conv_bn",
       "depthwise_relu6",
       "out=16\nkernel=3\ngroups=16\npadding=1\nactivation=\"relu6\"",
       {{2, 6, 7, 16}}},
      {"conv_bn",
       "depthwise_add_relu",
       "out=11\nkernel=3\ngroups=11\npadding=1\nadd=true\nactivation=\"relu\"",
       {{2, 5, 6, 11}, {2, 5, 6, 11}}},
      {"conv_bn",
       "wide_add_relu",
       "out=72\nkernel=1\nadd=true\nactivation=\"relu\"",
       {{2, 9, 8, 2}, {2, 9, 8, 72}}},
      {"conv_bn", "even_silu", "out=58\nkernel=1\nactivation=\"silu\"", {{3, 7, 7, 2}}},
      in_groups(2, {"conv_bn", "plain", "out=5\nkernel=3\npadding=1", {{4, 6, 5, 3}}}),
      in_groups(
          4,
          {"conv_bn", "relu", "out=8\nkernel=3\npadding=1\nactivation=\"relu\"", {{8, 5, 5, 8}}}),
      in_groups(2, {"conv_bn",
                    "add_relu",
                    "out=16\nkernel=3\nstride=2\npadding=1\nadd=true\nactivation=\"relu\"",
                    {{4, 7, 6, 16}, {4, 4, 3, 16}}}),
      in_groups(4, {"conv_bn",
                    "add_relu6",
                    "out=6\nkernel=1\nadd=true\nactivation=\"relu6\"",
                    {{4, 4, 5, 3}, {4, 4, 5, 6}}}),
      in_groups(2, {"conv_bn",
                    "depthwise_silu",
                    "out=21\nkernel=5\ngroups=21\nstride=2\npadding=2\nactivation=\"silu\"",
                    {{4, 9, 8, 21}}}),
      in_groups(2, {"conv_bn", "add", "out=58\nkernel=1\nadd=true", {{4, 5, 4, 2}, {4, 5, 4, 58}}}),
      {"conv_bn",
       "over_padding_alone",
       "out=8\nkernel=2\ndilation=2\npadding=1\nadd=true\nactivation=\"relu\"",
       {{3, 1, 1, 8}, {3, 1, 1, 8}}},
      {"conv_bn",
       "borders_of_padding",
       "out=16\nkernel=1\npadding=1\nadd=true\nactivation=\"relu6\"",
       {{2, 3, 4, 16}, {2, 5, 6, 16}}},
      {"conv_bn", "dilated", "out=3\nkernel=3\ndilation=2\nactivation=\"relu\"", {{1, 9, 8, 3}}},
      {"conv_bn", "join", "out=5\nkernel=1\njoin=true", {{2, 4, 5, 3}, {2, 4, 5, 5}}},
      {"conv_bn",
       "join_relu",
       "out=8\nkernel=3\npadding=1\nactivation=\"relu\"\njoin=true",
       {{2, 5, 5, 8}, {2, 5, 5, 8}}},
      {"conv_bn",
       "join_half",
       "out=58\nkernel=1\nactivation=\"relu\"\njoin=true",
       {{2, 5, 7, 4}, {2, 5, 7, 116}}},
      {"conv_bn",
       "join_third",
       "out=6\nkernel=1\nactivation=\"relu\"\njoin=true",
       {{3, 3, 5, 4}, {3, 3, 5, 18}}},
      {"conv_bn",
       "join_odd_half",
       "out=7\nkernel=3\nstride=2\nactivation=\"relu\"\njoin=true",
       {{2, 9, 8, 2}, {2, 4, 3, 14}}},
      in_groups(2, {"conv_bn",
                    "join_half",
                    "out=16\nkernel=1\nactivation=\"relu\"\njoin=true",
                    {{4, 5, 3, 2}, {4, 5, 3, 32}}}),
      in_groups(4, {"conv_bn",
                    "join_odd",
                    "out=5\nkernel=1\nactivation=\"relu\"\njoin=true",
                    {{8, 3, 3, 2}, {8, 3, 3, 5}}}),

      {"conv_bn_pair",
       "relu",
       pair_keys("kernel=1\nactivation=\"relu\"", 8, "kernel=3\npadding=1"),
       {{2, 6, 5, 3}}},
      {"conv_bn_pair",
       "relu6",
       pair_keys("kernel=1\nactivation=\"relu6\"", 6, "kernel=3\npadding=1\nactivation=\"relu6\""),
       {{2, 5, 7, 4}}},
      {"conv_bn_pair",
       "silu",
       pair_keys("kernel=1\nactivation=\"silu\"", 10, "kernel=3\npadding=1\nactivation=\"silu\""),
       {{2, 5, 5, 4}}},
      {"conv_bn_pair",
       "strided_relu6",
       pair_keys("kernel=3\npadding=1\nactivation=\"relu6\"", 12, "kernel=3\nstride=2\npadding=1"),
       {{2, 7, 8, 3}}},
      {"conv_bn_pair",
       "five_relu",
       pair_keys("kernel=1\nactivation=\"relu\"", 4, "kernel=5\npadding=2"),
       {{2, 9, 6, 3}}},
      {"conv_bn_pair",
       "five_strided_silu",
       pair_keys("kernel=1\nactivation=\"silu\"", 8, "kernel=5\nstride=2\npadding=2"),
       {{3, 7, 5, 4}}},
      {"conv_bn_pair",
       "depthwise_twice",
       pair_keys("kernel=3\npadding=1\ngroups=8\nactivation=\"relu\"", 8, "kernel=3\npadding=1"),
       {{2, 5, 4, 8}}},
      in_groups(2, {"conv_bn_pair",
                    "relu6",
                    pair_keys("kernel=1\nactivation=\"relu6\"", 6, "kernel=3\npadding=1"),
                    {{4, 5, 5, 4}}}),
      in_groups(3, {"conv_bn_pair",
                    "strided_silu",
                    pair_keys("kernel=1\nactivation=\"silu\"", 16, "kernel=5\nstride=2\npadding=2"),
                    {{6, 7, 6, 4}}}),
  };
  return rows;
}

std::vector<float> draw(RandomStream& random, std::int64_t count, float mean, float deviation) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = mean + deviation * random.normal();
  return values;
}

}  // namespace

LayerCase in_groups(std::int64_t groups, LayerCase row) {
  row.groups = groups;
  row.name = std::to_string(groups) + "_groups_" + row.name;
  return row;
}

void PrintTo(const LayerCase& row, std::ostream* out) { *out << row.kind << " " << row.name; }

std::span<const LayerCase> layer_cases() { return table(); }

std::string pair_keys(const std::string& maker, std::int64_t channels, const std::string& reader) {
  const std::string count = std::to_string(channels);
  return "[maker]\nout=" + count + "\n" + maker + "\n[reader]\nout=" + count + "\ngroups=" + count +
         "\n" + reader;
}

LayerPtr make_layer(const LayerCase& row) {
  const LayerKind* kind = find_layer_kind(row.kind);
  const bool pair = row.kind == "conv_bn_pair";
  TANDEM_CHECK(pair || kind != nullptr, "no layer is called '{}'", row.kind);
  const ConfigTable keys = ConfigTable::from_text(row.keys, row.kind + "." + row.name);
  LayerPtr layer = pair ? make_conv_bn_pair(keys) : kind->from_config(keys);
  keys.finish();
  return layer;
}

KernelData make_data(const LayerCase& row, const Layer& layer) {
  RandomStream random(7, row.kind + row.name);
  KernelData data{.input_shapes = row.inputs};
  for (const Shape& shape : row.inputs) {
    data.inputs.push_back(draw(random, shape.elements(), row.mean, row.deviation));
  }
  for (const ParameterSpec& spec : layer.parameters(row.inputs)) {
    const float mean = spec.role == ParameterRole::norm && spec.name.ends_with("weight") ? 1 : 0;
    data.parameters.push_back(draw(random, spec.shape.elements(), mean, 0.4F));
  }
  for (const BufferSpec& spec : layer.buffers(row.inputs)) {
    std::vector<float> values = draw(random, spec.shape.elements(), 0.0F, 0.5F);
    if (spec.name == "running_var") {
      for (float& value : values) value = 0.5F + std::fabs(value);
    }
    data.buffers.push_back(std::move(values));
  }
  data.output_gradient = draw(random, layer.output_shape(row.inputs).elements(), 0.0F, 1.0F);
  return data;
}

}  // namespace tandem
