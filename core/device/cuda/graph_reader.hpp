// SPDX-License-Identifier: Apache-2.0
// Reads a capture back from the driver: the kinds of its nodes, the memory that they touch, and the
// resources of the kernels. graph_audit.hpp decides which nodes are allowed.
#pragma once
#include <cuda.h>

#include <optional>
#include <string>
#include <vector>

#include "core/device/graph_audit.hpp"
#include "core/device/launch_facts.hpp"

namespace fk::cuda {

class GraphReader {
 public:
  // Forgets the previous capture.
  void begin();
  // Work that this stream captures from now on belongs to `mark`, whose `first` is filled in.
  void mark(CUstream stream, GraphMark mark);
  // Returns audit_graph() of a capture that has ended.
  std::string audit(CUgraph graph, const std::vector<MemoryRange>& known);
  // Facts of the last audited capture; empty when it has no nodes.
  const std::optional<LaunchFacts>& facts() const { return facts_; }

 private:
  void take_new(CUgraph graph);
  GraphNode read(CUgraphNode node);
  void read_kernel(CUgraphNode node, GraphNode& out);
  std::vector<CUgraphNode> nodes_;  // in the order of their capture
  std::vector<GraphMark> marks_;
  std::optional<LaunchFacts> facts_;
  uint64_t threads_ = 0;  // threads of the kernel in facts_
};

// Inserts an empty node, which depends on all nodes captured so far. Later nodes depend on it, so
// programmatic dependent launch cannot start their kernels early.
CUresult separate(CUstream stream);

}  // namespace fk::cuda
