// SPDX-License-Identifier: Apache-2.0
// Reads a capture back from the driver: what its nodes are, which memory they touch and what the
// kernels need. Whether that may be is graph_audit.hpp's business.
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
  // Forgets the capture before.
  void begin();
  // What this stream captures from now on is the mark's, whose `first` is filled in.
  void mark(CUstream stream, GraphMark mark);
  // audit_graph() of a capture that has ended.
  std::string audit(CUgraph graph, const std::vector<MemoryRange>& known);
  // Of the capture that was audited last; nothing when it has no nodes.
  const std::optional<LaunchFacts>& facts() const { return facts_; }

 private:
  void take_new(CUgraph graph);
  GraphNode read(CUgraphNode node);
  void read_kernel(CUgraphNode node, GraphNode& out);
  std::vector<CUgraphNode> nodes_;  // in the order of their capture
  std::vector<GraphMark> marks_;
  std::optional<LaunchFacts> facts_;
  uint64_t threads_ = 0;  // of the kernel in facts_
};

// What the stream captures from now on depends on all that it has captured so far, by an empty
// node, from which no kernel can be started early.
CUresult separate(CUstream stream);

}  // namespace fk::cuda
