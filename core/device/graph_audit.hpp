// SPDX-License-Identifier: Apache-2.0
// What captured work may consist of. A device reads the nodes of a capture back from its driver;
// whether they may stay is decided here, where no driver is needed.
//
// A graph is replayed with the same addresses, as often as its owner likes and when he likes, and
// nobody looks at the host meanwhile. So it may hold kernels, copies and fills on the memory that
// the host has given, one after the other or beside each other, and nothing that allocates, calls
// back, waits for somebody outside or is a graph of its own. A stream that was forked and joined is
// seen by what may run beside each other alone: work that takes turns between two streams gives the
// same nodes and edges as work on one, and costs as much.
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
  graph,  // a graph inside, or one that is conditional
  allocation,
  release,
  event,      // recorded or waited for: a stream or a process outside
  semaphore,  // of another interface
  unknown
};

inline constexpr int64_t kAnyStreams = -1;

struct MemoryRange {
  uint64_t begin = 0, bytes = 0;
};

// A node as it was captured. Pointers are those of the device: the ends of copies and fills with
// their bytes, and what among a kernel's parameters lies in some allocation (no bytes: where it
// points).
struct GraphNode {
  GraphNodeKind kind = GraphNodeKind::unknown;
  std::string name;  // of the kernel; empty: not known
  std::vector<MemoryRange> touches;
  std::vector<size_t> after = {};  // the nodes that it waits for, by their place
};

// What the nodes from `first` on belong to, up to the next mark.
struct GraphMark {
  size_t first = 0;
  std::string op;                      // may be empty: the host's own work
  bool own_memory_only = false;        // nothing but `known` may be touched
  int64_t side_streams = kAnyStreams;  // one more than these nodes may run beside each other
};

// The most kernels, copies and fills from `first` up to `end` of which none waits for another: on
// fewer streams they were not captured.
size_t graph_width(const std::vector<GraphNode>& nodes, size_t first, size_t end);

// Empty, or the first thing that must not be there, with the op's name: "rms_norm: allocates memory
// in a graph". Nodes are in the order of their capture, marks in that of `first`.
std::string audit_graph(const std::vector<GraphNode>& nodes, const std::vector<GraphMark>& marks,
                        const std::vector<MemoryRange>& known);

}  // namespace fk
