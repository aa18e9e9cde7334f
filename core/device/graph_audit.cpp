// SPDX-License-Identifier: Apache-2.0
#include "core/device/graph_audit.hpp"

#include <algorithm>
#include <cstdio>

namespace fk {

namespace {

// Why nodes of a kind are refused; null where they are not.
const char* refusal(GraphNodeKind kind) {
  switch (kind) {
    case GraphNodeKind::kernel:
    case GraphNodeKind::copy:
    case GraphNodeKind::fill:
    case GraphNodeKind::empty:
      return nullptr;
    case GraphNodeKind::host:
      return "calls a function of the host from a graph";
    case GraphNodeKind::graph:
      return "has a graph of its own inside the graph";
    case GraphNodeKind::allocation:
      return "allocates memory in a graph";
    case GraphNodeKind::release:
      return "releases memory in a graph";
    case GraphNodeKind::event:
      return "records or waits for an event of a stream outside of the graph";
    case GraphNodeKind::semaphore:
      return "waits for or signals a semaphore outside of the graph";
    case GraphNodeKind::unknown:
      break;
  }
  return "has a node of a kind that this host does not know";
}

const char* what_is(GraphNodeKind kind) {
  return kind == GraphNodeKind::copy ? "a copy" : kind == GraphNodeKind::fill ? "a fill" : "";
}

bool lies_in(const MemoryRange& part, const std::vector<MemoryRange>& known) {
  return std::any_of(known.begin(), known.end(), [&](const MemoryRange& whole) {
    return part.begin >= whole.begin && part.begin - whole.begin <= whole.bytes &&
           part.bytes <= whole.bytes - (part.begin - whole.begin);
  });
}

std::string address(uint64_t at) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(at));
  return text;
}

}  // namespace

std::string audit_graph(const std::vector<GraphNode>& nodes, const std::vector<GraphMark>& marks,
                        const std::vector<MemoryRange>& known) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    const auto after =
        std::find_if(marks.begin(), marks.end(), [&](const GraphMark& m) { return m.first > i; });
    const GraphMark mark = after == marks.begin() ? GraphMark{} : *(after - 1);
    const std::string who = mark.op.empty() ? "" : mark.op + ": ";
    const GraphNode& node = nodes[i];
    if (const char* why = refusal(node.kind)) return who + why;
    if (!mark.own_memory_only) continue;
    for (const MemoryRange& part : node.touches) {
      if (lies_in(part, known)) continue;
      const std::string what =
          node.name.empty() && *what_is(node.kind) ? what_is(node.kind) : "kernel " + node.name;
      return who + what + " has the address " + address(part.begin) +
             (part.bytes > 1 ? " (" + std::to_string(part.bytes) + " bytes)" : "") +
             ", which is not in memory that the host has given";
    }
  }
  return "";
}

}  // namespace fk
