// SPDX-License-Identifier: Apache-2.0
// Rules for captured work. A device reads the nodes of a capture back from its driver; this file
// decides which nodes are allowed, without a driver.
//
// A graph is replayed with the same addresses, any number of times and at any time, without checks
// by the host. So it may hold kernels, copies and fills on the host's memory, in sequence or in
// parallel. It may hold no allocation, callback, wait for an outsider, or inner graph. A second
// stream is visible only by parallel work. Work that alternates between two streams gives the same
// nodes and edges as work on one stream, and costs as much.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace fk {

enum class GraphNodeKind {
  kernel,
  copy,
  fill,
  empty,  // joins others
  host,   // a function of the host
  graph,  // a graph inside the graph, or a conditional one
  allocation,
  release,
  event,      // recorded or waited for: a stream or a process outside
  semaphore,  // a semaphore of another interface
  unknown
};

inline constexpr int64_t kAnyStreams = -1;

struct MemoryRange {
  uint64_t begin = 0, bytes = 0;
};

// A node of a capture. `touches` has the ranges of copies and fills. It also has a kernel's
// parameters that point into an allocation; 0 bytes: only the address is known.
struct GraphNode {
  GraphNodeKind kind = GraphNodeKind::unknown;
  std::string name;  // of the kernel; empty: not known
  std::vector<MemoryRange> touches;
  std::vector<size_t> after = {};  // indices of the nodes that it waits for
};

// The owner of the nodes from `first` on, up to the next mark.
struct GraphMark {
  size_t first = 0;
  std::string op;                      // empty: the host's own work
  bool own_memory_only = false;        // only `known` memory may be touched
  int64_t side_streams = kAnyStreams;  // largest number of parallel nodes, less one
};

// The largest number of kernels, copies and fills from `first` up to `end` that do not wait for
// each other. It is a lower bound of the number of captured streams.
size_t graph_width(const std::vector<GraphNode>& nodes, size_t first, size_t end);

// Empty, or the first forbidden node, with the op's name: "rms_norm: allocates memory in a graph".
// Nodes are in the order of their capture, marks in the order of `first`.
std::string audit_graph(const std::vector<GraphNode>& nodes, const std::vector<GraphMark>& marks,
                        const std::vector<MemoryRange>& known);

}  // namespace fk
