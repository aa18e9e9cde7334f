// SPDX-License-Identifier: Apache-2.0
#include "backends/hip/graph.hpp"

#include <algorithm>

namespace fk_hip {

namespace {

int32_t kind_of(hipGraphNodeType type) {
  switch (type) {
    case hipGraphNodeTypeKernel:
      return FK_NODE_KERNEL;
    case hipGraphNodeTypeMemcpy:
    case hipGraphNodeTypeMemcpy1D:
      return FK_NODE_COPY;
    case hipGraphNodeTypeMemset:
      return FK_NODE_FILL;
    case hipGraphNodeTypeHost:
      return FK_NODE_HOST;
    case hipGraphNodeTypeGraph:
      return FK_NODE_GRAPH;
    case hipGraphNodeTypeEmpty:
      return FK_NODE_EMPTY;
    case hipGraphNodeTypeWaitEvent:
    case hipGraphNodeTypeEventRecord:
      return FK_NODE_EVENT;
    default:
      return FK_NODE_UNKNOWN;
  }
}

}  // namespace

// HIP lists the nodes in any order, so new ones are those that were not there before.
void GraphReader::take_new(hipGraph_t graph) {
  size_t count = 0;
  check(hipGraphGetNodes(graph, nullptr, &count), "hipGraphGetNodes");
  std::vector<hipGraphNode_t> all(count);
  if (count) check(hipGraphGetNodes(graph, all.data(), &count), "hipGraphGetNodes");
  std::vector<hipGraphNode_t> fresh;
  for (hipGraphNode_t node : all)
    if (place_of(node) < 0) fresh.push_back(node);
  // A node comes after all nodes that it waits for.
  while (!fresh.empty()) {
    const size_t before = handles_.size();
    for (size_t i = 0; i < fresh.size();) {
      size_t waits = 0;
      check(hipGraphNodeGetDependencies(fresh[i], nullptr, &waits), "hipGraphNodeGetDependencies");
      std::vector<hipGraphNode_t> earlier(waits);
      if (waits)
        check(hipGraphNodeGetDependencies(fresh[i], earlier.data(), &waits),
              "hipGraphNodeGetDependencies");
      const bool ready = std::all_of(earlier.begin(), earlier.end(),
                                     [&](hipGraphNode_t node) { return place_of(node) >= 0; });
      if (!ready) {
        ++i;
        continue;
      }
      handles_.push_back(fresh[i]);
      std::vector<int64_t> places;
      for (hipGraphNode_t node : earlier) places.push_back(place_of(node));
      after_.resize(handles_.size());
      after_.back() = std::move(places);
      fresh.erase(fresh.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (handles_.size() == before) throw std::runtime_error("captured nodes wait in a ring");
  }
}

int64_t GraphReader::place_of(hipGraphNode_t handle) const {
  const auto at = std::find(handles_.begin(), handles_.end(), handle);
  return at == handles_.end() ? -1 : at - handles_.begin();
}

void GraphReader::mark(hipStream_t stream) {
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  hipGraph_t graph = nullptr;
  check(hipStreamGetCaptureInfo_v2(stream, &status, nullptr, &graph, nullptr, nullptr),
        "hipStreamGetCaptureInfo_v2");
  if (status == hipStreamCaptureStatusActive) take_new(graph);
  marks_.push_back(handles_.size());
}

fk_node GraphReader::node_of(size_t at) {
  fk_node out{};
  hipGraphNodeType type = hipGraphNodeTypeCount;
  check(hipGraphNodeGetType(handles_[at], &type), "hipGraphNodeGetType");
  out.kind = kind_of(type);
  out.name = "";
  out.mark =
      static_cast<int32_t>(std::upper_bound(marks_.begin(), marks_.end(), at) - marks_.begin());
  if (type == hipGraphNodeTypeKernel) {
    hipKernelNodeParams kernel{};
    check(hipGraphKernelNodeGetParams(handles_[at], &kernel), "hipGraphKernelNodeGetParams");
    const auto size = [](const dim3& d) { return int64_t{d.x} * d.y * d.z; };
    out.threads = size(kernel.gridDim) * size(kernel.blockDim);
    out.shared_bytes = kernel.sharedMemBytes;
  } else if (type == hipGraphNodeTypeMemset) {
    hipMemsetParams fill{};
    check(hipGraphMemsetNodeGetParams(handles_[at], &fill), "hipGraphMemsetNodeGetParams");
    const size_t rows = std::max<size_t>(1, fill.height);
    spans_[at].push_back(
        {fill.dst, static_cast<int64_t>((rows - 1) * fill.pitch + fill.width * fill.elementSize)});
  }
  out.spans = spans_[at].data();
  out.span_count = static_cast<int64_t>(spans_[at].size());
  out.after = after_[at].data();
  out.after_count = static_cast<int64_t>(after_[at].size());
  return out;
}

void GraphReader::read(hipGraph_t graph, fk_nodes& out) {
  take_new(graph);
  after_.resize(handles_.size());
  spans_.assign(handles_.size(), {});
  for (size_t i = 0; i < handles_.size(); ++i) nodes_.push_back(node_of(i));
  out.node_bytes = sizeof(fk_node);
  out.count = static_cast<int64_t>(nodes_.size());
  out.nodes = nodes_.data();
}

}  // namespace fk_hip
