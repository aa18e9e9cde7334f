// SPDX-License-Identifier: Apache-2.0
#include "core/device/backend_capture.hpp"

#include <algorithm>

namespace fk {

namespace {

GraphNodeKind kind_of(int32_t kind) {
  switch (kind) {
    case FK_NODE_KERNEL:
      return GraphNodeKind::kernel;
    case FK_NODE_COPY:
      return GraphNodeKind::copy;
    case FK_NODE_FILL:
      return GraphNodeKind::fill;
    case FK_NODE_EMPTY:
      return GraphNodeKind::empty;
    case FK_NODE_HOST:
      return GraphNodeKind::host;
    case FK_NODE_GRAPH:
      return GraphNodeKind::graph;
    case FK_NODE_ALLOCATION:
      return GraphNodeKind::allocation;
    case FK_NODE_RELEASE:
      return GraphNodeKind::release;
    case FK_NODE_EVENT:
      return GraphNodeKind::event;
    case FK_NODE_SEMAPHORE:
      return GraphNodeKind::semaphore;
    default:
      return GraphNodeKind::unknown;
  }
}

// The node with index `own`, or its fault in `why`.
GraphNode node_of(const fk_node& node, int64_t own, std::string& why) {
  GraphNode out;
  out.kind = kind_of(node.kind);
  if (node.name) out.name = node.name;
  if (node.span_count < 0 || (node.span_count > 0 && !node.spans)) why = "a list of memory";
  if (node.after_count < 0 || (node.after_count > 0 && !node.after)) why = "a list of waits";
  if (!why.empty()) return out;
  for (int64_t i = 0; i < node.span_count; ++i)
    out.touches.push_back({reinterpret_cast<uintptr_t>(node.spans[i].memory),
                           static_cast<uint64_t>(std::max<int64_t>(0, node.spans[i].bytes))});
  for (int64_t i = 0; i < node.after_count; ++i) {
    if (node.after[i] < 0 || node.after[i] >= own) why = "a wait for no earlier node";
    out.after.push_back(static_cast<size_t>(node.after[i]));
  }
  return out;
}

}  // namespace

void BackendCapture::begin() {
  marks_.clear();
  facts_.reset();
}

std::string BackendCapture::audit(const fk_nodes& nodes, const std::vector<MemoryRange>& known) {
  if (nodes.count < 0 || (nodes.count > 0 && (!nodes.nodes || nodes.node_bytes < sizeof(fk_node))))
    return "the backend gives a garbled list of nodes";
  std::vector<GraphNode> all;
  std::vector<size_t> firsts(marks_.size(), static_cast<size_t>(nodes.count));
  int64_t most_threads = -1;
  int32_t mark = 0;  // of the node before
  for (int64_t i = 0; i < nodes.count; ++i) {
    const auto& node = *reinterpret_cast<const fk_node*>(
        reinterpret_cast<const char*>(nodes.nodes) + i * int64_t{nodes.node_bytes});
    std::string why;
    all.push_back(node_of(node, i, why));
    if (node.mark < mark || node.mark > static_cast<int32_t>(marks_.size())) why = "marks";
    if (!why.empty()) return "the backend gives a garbled list of nodes: " + why;
    for (; mark < node.mark; ++mark) firsts[static_cast<size_t>(mark)] = static_cast<size_t>(i);
    const GraphNodeKind kind = all.back().kind;
    if (kind > GraphNodeKind::fill) continue;
    if (!facts_) facts_.emplace();
    ++facts_->launches;
    if (kind != GraphNodeKind::kernel || node.threads <= most_threads) continue;
    most_threads = node.threads;
    facts_->kernel = all.back().name;
    facts_->registers = node.registers;
    facts_->local_bytes = node.local_bytes;
    facts_->shared_bytes = node.shared_bytes;
    facts_->occupancy = node.occupancy;
  }
  for (const GraphNode& node : all)
    if (facts_ && facts_->of_library.empty() && !kernel_of_library(node.name).empty())
      facts_->of_library = node.name;
  for (size_t i = 0; i < marks_.size(); ++i) marks_[i].first = firsts[i];
  return audit_graph(all, marks_, known);
}

}  // namespace fk
