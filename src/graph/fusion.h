#pragma once

#include "graph/graph.h"

namespace tandem {

/// The same model with conv2d + batch_norm (+ add) (+ an activation) (+ a shuffle_join) made one
/// conv_bn layer wherever the values in between have no other reader. Names of parameters and
/// buffers stay as they were; the order of nodes stays topological.
Graph fuse(const Graph& graph);

}  // namespace tandem
