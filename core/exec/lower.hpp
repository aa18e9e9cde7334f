// SPDX-License-Identifier: Apache-2.0
// Turns a recorded graph into nodes with providers. A call of a larger op (a region) goes to a
// provider that takes it whole. Otherwise it is expanded into calls of smaller ops, which are asked
// again. The views in frames are made here and keep their addresses.
#pragma once
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "core/exec/select.hpp"
#include "core/graph/graph.hpp"
#include "fk/comm.h"

namespace fk {

// A view with space for its dims. Frames hold its address while the program lives.
struct ViewStore {
  fk_out view{};
  int64_t dims[16]{};  // shape, then strides
};

// A bound on the sizes of a step.
struct StepBound {
  Expr of;  // over the axes of the graph
  SizeBound bound;
  int value = -1;  // index of the program's value of `of`
};

// One call of an op with its provider and its frames.
// If different providers take different sizes of a call, each has a node, one behind the other.
// Each step runs one of them: the first whose `when` holds, else the last.
struct Node {
  Call call;
  const Provider* provider = nullptr;
  fk_need need{};
  std::vector<StepBound> when;
  size_t others = 0;  // in the first of such nodes: number of nodes that follow
  std::vector<std::string> refusals;
  Frames frames;  // host layout
};

struct Lowered {
  Graph graph;  // with buffers and values of the decompositions; its calls are in `nodes`
  std::vector<Node> nodes;
  std::vector<Tap> taps;              // `before` counts nodes
  std::deque<ViewStore> views;        // by value, at the limits, data null
  std::vector<bool> handed;           // by value: an op or the caller gets its view
  std::deque<ViewStore> host_views;   // for plan frames: views of the inputs' host memory
  std::vector<int> host_view_values;  // the value that each one mirrors
  std::deque<fk_in_list> lists;       // lists, their items and ints: memory that slots point to
  std::deque<std::vector<const fk_in*>> list_items;
  std::deque<fk_ints> ints;
};

// Throws Error when a handed-out view begins at an address without the ABI's alignment (tensor.h).
// A reshaped slice may begin anywhere, because its strides promise less.
void need_alignment(const Lowered& lowered, size_t value);

// `limits` has the largest value of each axis. `comm_or_null` is this rank's communicator; null:
// one rank. Throws Error when no provider takes an op.
std::unique_ptr<Lowered> lower(const Catalog& catalog, Graph graph, const Plugins& plugins,
                               const ProviderPolicy& policy, int32_t device_type, int32_t device_id,
                               const Axes& limits, const fk_comm* comm_or_null);

}  // namespace fk
