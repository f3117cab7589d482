#include "graph/norm_deferral.h"

#include <algorithm>

#include "device/memory.h"
#include "layers/convolution/deferred_norm.h"

namespace tandem {
namespace {

const ConvBnOptions* conv_bn_options(const Node& node) {
  const auto* layer = dynamic_cast<const ConvBn*>(node.layer.get());
  return layer == nullptr ? nullptr : &layer->options();
}

/// Which of the reader's inputs a node is.
std::size_t slot_of(const Node& reader, std::size_t node) {
  const auto at = std::ranges::find(reader.inputs, static_cast<int>(node));
  return static_cast<std::size_t>(at - reader.inputs.begin());
}

/// Whether the reader's kernels can, prepared as requested.
bool can_finish(const ConvBnOptions& maker, const KernelRequest& maker_request, const Node& reader,
                std::size_t slot, const KernelRequest& reader_request) {
  return norm_reader(maker, *reader.layer, slot, maker.conv.out_channels) != NormReader::sum ||
         normalise_alike(maker_request, reader_request);
}

bool is_chosen(NormDeferral which, const AnyContext& context, const ConvBnOptions& maker,
               const KernelRequest& maker_request, const Layer& reader, std::size_t slot) {
  if (which == NormDeferral::always) return true;
  if (which == NormDeferral::memory_only && !saves_memory_alone(maker, maker_request, reader)) {
    return false;
  }
  constexpr ResidentClusters none{};
  if (which == NormDeferral::as_of_many) {
    return gains_by_deferring(maker, maker_request, reader, none);
  }
  return std::visit(
      [&](const auto& device) {
        return gains_by_deferring(device, maker, maker_request, reader, slot);
      },
      context);
}

}  // namespace

std::vector<int> norm_readers(const Graph& graph) {
  const std::span<const Node> nodes = graph.nodes();
  std::vector<int> readers = only_readers(nodes);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (readers[i] < 0) continue;
    const ConvBnOptions* maker = conv_bn_options(nodes[i]);
    const Node& reader = nodes[static_cast<std::size_t>(readers[i])];
    const bool can = maker != nullptr && norm_reader(*maker, *reader.layer, slot_of(reader, i),
                                                     maker->conv.out_channels) != NormReader::none;
    if (!can) readers[i] = -1;
  }
  return readers;
}

std::vector<int> defer_norms(const Graph& graph, const AnyContext& context, NormDeferral which,
                             std::vector<KernelRequest>& requests) {
  std::vector<int> left_to(graph.nodes().size(), -1);
  if (which == NormDeferral::never || is_host(context)) return left_to;
  const std::vector<int> readers = norm_readers(graph);
  for (std::size_t i = 0; i < readers.size(); ++i) {
    if (readers[i] < 0) continue;
    const auto to = static_cast<std::size_t>(readers[i]);
    const ConvBnOptions& maker = *conv_bn_options(graph.nodes()[i]);
    const Node& reader = graph.nodes()[to];
    const std::size_t slot = slot_of(reader, i);
    // A reader normalises one of its inputs.
    if (requests[to].input_norm || !can_finish(maker, requests[i], reader, slot, requests[to]) ||
        !is_chosen(which, context, maker, requests[i], *reader.layer, slot)) {
      continue;
    }
    left_to[i] = readers[i];
    requests[i].defers_norm = true;
    requests[to].input_norm = deferred_norm(maker, requests[i], slot);
  }
  return left_to;
}

}  // namespace tandem
