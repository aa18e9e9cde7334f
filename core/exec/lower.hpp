// SPDX-License-Identifier: Apache-2.0
// From a recorded graph to nodes with providers: regions are given to a provider that takes the op
// whole, or expanded and asked again. The views that frames point to are made here and keep their
// addresses.
#pragma once
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "core/exec/select.hpp"
#include "core/graph/graph.hpp"
#include "fk/comm.h"

namespace fk {

// A view with room for its dims; frames hold its address for as long as the program lives.
struct ViewStore {
  fk_out view{};
  int64_t dims[16]{};  // shape, then strides
};

// Of the sizes of a step.
struct StepBound {
  Expr of;  // over the axes of the graph
  SizeBound bound;
  int value = -1;  // the program's own, of `of`
};

// A call of which different providers take different sizes is one node for each of them, one after
// the other, and in every step one of these runs: the first whose `when` holds, else the last.
struct Node {
  Call call;
  const Provider* provider = nullptr;
  fk_need need{};
  std::vector<StepBound> when;
  size_t others = 0;  // of the first of them: how many follow
  std::vector<std::string> refusals;
  Frames frames;  // host layout
};

struct Lowered {
  Graph graph;  // with the buffers and values that expansions added; its calls are in `nodes`
  std::vector<Node> nodes;
  std::vector<Tap> taps;        // `before` counts nodes
  std::deque<ViewStore> views;  // by value, at the limits, data null
  std::vector<bool> handed;     // by value: an op or the caller gets its view
  std::deque<ViewStore>
      host_views;  // for plan frames; their data is set to the input's host memory
  std::vector<int> host_view_values;  // the value that each mirrors
  std::deque<fk_in_list> lists;
  std::deque<std::vector<const fk_in*>> list_items;
  std::deque<fk_ints> ints;
};

// Throws Error where a view that is handed out begins elsewhere than the ABI promises (tensor.h). A
// slice that is only reshaped may begin anywhere: its reshaped strides promise less.
void need_alignment(const Lowered& lowered, size_t value);

// `limits` has the largest value of every axis; `comm_or_null` is this rank's communicator, where
// there are several. Throws Error when no provider takes an op.
std::unique_ptr<Lowered> lower(const Catalog& catalog, Graph graph, const Plugins& plugins,
                               const ProviderPolicy& policy, int32_t device_type, int32_t device_id,
                               const Axes& limits, const fk_comm* comm_or_null);

}  // namespace fk
