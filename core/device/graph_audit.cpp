// SPDX-License-Identifier: Apache-2.0
// Decides by the nodes of a captured graph if the graph is allowed (graph_audit.hpp).
#include "core/device/graph_audit.hpp"

#include <algorithm>
#include <cstdio>
#include <functional>

namespace fk {

namespace {

// The reason why nodes of a kind are refused; null: they are allowed.
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
      return "has a child graph";
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
  return "has a node of unknown type";
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

bool is_work(GraphNodeKind kind) {
  return kind == GraphNodeKind::kernel || kind == GraphNodeKind::copy ||
         kind == GraphNodeKind::fill;
}

// Direct and indirect waits. before[i][j] is true if node j comes before node i: i waits for j,
// both counted from `first`. The nodes may be in any order, because a driver promises none.
std::vector<std::vector<bool>> waits(const std::vector<GraphNode>& nodes, size_t first,
                                     size_t end) {
  const size_t count = end - first;
  std::vector<std::vector<bool>> before(count, std::vector<bool>(count));
  std::vector<char> done(count);
  for (size_t start = 0; start < count; ++start) {
    std::vector<size_t> path = {start};
    while (!path.empty()) {
      const size_t at = path.back();
      const auto& after = nodes[first + at].after;
      const auto own = [&](size_t place) { return place >= first && place < end; };
      const auto open = std::find_if(after.begin(), after.end(), [&](size_t place) {
        return own(place) && !done[place - first];
      });
      if (open != after.end()) {
        path.push_back(*open - first);
        continue;
      }
      for (const size_t place : after) {
        if (!own(place)) continue;
        before[at][place - first] = true;
        for (size_t i = 0; i < count; ++i)
          if (before[place - first][i]) before[at][i] = true;
      }
      done[at] = 1;
      path.pop_back();
    }
  }
  return before;
}

}  // namespace

// By Dilworth's theorem the width is the least number of chains that hold all nodes. In a chain
// each node waits for the previous one. The number is that of the nodes without a previous one,
// after as many nodes as possible have one (a largest matching).
size_t graph_width(const std::vector<GraphNode>& nodes, size_t first, size_t end) {
  const auto before = waits(nodes, first, end);
  const size_t count = end - first, nobody = count;
  std::vector<size_t> next_of(count, nobody);  // the node that follows in its chain
  std::vector<bool> asked;
  const std::function<bool(size_t)> find = [&](size_t node) {
    for (size_t back = count; back-- > 0;) {  // the nearest first: it mostly fits
      if (!before[node][back] || !is_work(nodes[first + back].kind) || asked[back]) continue;
      asked[back] = true;
      if (next_of[back] != nobody && !find(next_of[back])) continue;
      next_of[back] = node;
      return true;
    }
    return false;
  };
  size_t width = 0;
  for (size_t node = 0; node < count; ++node) {
    if (!is_work(nodes[first + node].kind)) continue;
    asked.assign(count, false);
    if (!find(node)) ++width;
  }
  return width;
}

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
             ", which is outside of the host's memory";
    }
  }
  for (size_t m = 0; m < marks.size(); ++m) {
    const GraphMark& mark = marks[m];
    if (mark.side_streams == kAnyStreams) continue;
    const size_t end = m + 1 < marks.size() ? marks[m + 1].first : nodes.size();
    const size_t width = graph_width(nodes, mark.first, end);
    if (static_cast<int64_t>(width) > mark.side_streams + 1)
      return (mark.op.empty() ? "" : mark.op + ": ") + "has " + std::to_string(width) +
             " parallel branches and claims " + std::to_string(mark.side_streams) + " side streams";
  }
  return "";
}

}  // namespace fk
