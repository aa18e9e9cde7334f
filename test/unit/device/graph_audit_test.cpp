// SPDX-License-Identifier: Apache-2.0
// Made-up captures: what must not be in a graph is refused with the op that brought it, and what
// honest work consists of is not.
#include "core/device/graph_audit.hpp"

#include "test/catch.hpp"

using namespace fk;

namespace {

using Kind = GraphNodeKind;
const std::vector<MemoryRange> kKnown = {{0x1000, 0x100}, {0x4000, 0x1000}};

GraphNode kernel(std::vector<uint64_t> pointers) {
  GraphNode node{Kind::kernel, "norm", {}};
  for (const uint64_t p : pointers) node.touches.push_back({p, 0});
  return node;
}

}  // namespace

TEST_CASE("a capture of kernels, copies and fills on given memory is fine") {
  const std::vector<GraphNode> nodes = {kernel({0x1000, 0x1100, 0x4800}),
                                        {Kind::copy, "", {{0x4000, 0x1000}, {0x1000, 0x100}}},
                                        {Kind::fill, "", {{0x4ff0, 0x10}}},
                                        {Kind::empty, "", {}}};
  CHECK(audit_graph(nodes, {{0, "rms_norm", true}}, kKnown).empty());
  CHECK(audit_graph({}, {}, {}).empty());
}

TEST_CASE("a node that a graph must not have is refused with its op's name") {
  const std::vector<GraphMark> marks = {{0, "rms_norm", false}, {1, "linear", false}};
  for (const Kind kind : {Kind::host, Kind::graph, Kind::allocation, Kind::release, Kind::event,
                          Kind::semaphore, Kind::unknown}) {
    const std::string why = audit_graph({kernel({}), {kind, "", {}}}, marks, kKnown);
    CHECK(why.substr(0, 8) == "linear: ");
    CHECK(audit_graph({{kind, "", {}}, kernel({})}, marks, kKnown).substr(0, 10) == "rms_norm: ");
  }
  CHECK(audit_graph({{Kind::allocation, "", {}}}, {{0, "linear", false}}, {}) ==
        "linear: allocates memory in a graph");
  CHECK(audit_graph({{Kind::host, "", {}}}, {}, {}) == "calls a function of the host from a graph");
}

TEST_CASE("memory that the host has not given is refused where that is asked for") {
  const auto why = [](const GraphNode& node, bool own) {
    return audit_graph({kernel({}), node}, {{0, "norm", false}, {1, "add", own}}, kKnown);
  };
  for (const uint64_t outside : {0xfffULL, 0x1101ULL, 0x3fffULL, 0x5001ULL, 0x90000ULL}) {
    CHECK(why(kernel({0x1000, outside}), true).substr(0, 29) == "add: kernel norm has the addr");
    CHECK(why(kernel({outside}), false).empty());
  }
  // A range that begins inside and ends outside, or has more bytes than there are numbers.
  CHECK_FALSE(why({Kind::copy, "", {{0x10f0, 0x20}}}, true).empty());
  CHECK_FALSE(why({Kind::fill, "", {{0x4001, 0x1000}}}, true).empty());
  CHECK_FALSE(why({Kind::fill, "", {{0x4001, ~0ULL}}}, true).empty());
  CHECK(why({Kind::fill, "", {{0x4fff, 0x2}}}, true) ==
        "add: a fill has the address 0x4fff (2 bytes), which is outside of the host's "
        "memory");
}

TEST_CASE("what was captured before the first mark is the host's") {
  const std::vector<GraphMark> marks = {{1, "add", true}};
  CHECK(audit_graph({kernel({0x9999}), kernel({0x1000})}, marks, kKnown).empty());
  CHECK_FALSE(audit_graph({kernel({0x1000}), kernel({0x9999})}, marks, kKnown).empty());
}

TEST_CASE("branches beside each other are counted, and more than were declared refused") {
  const auto after = [](std::vector<size_t> places) {
    GraphNode node = kernel({});
    node.after = std::move(places);
    return node;
  };
  const auto said = [](const std::vector<GraphNode>& nodes, int64_t declared) {
    return audit_graph(nodes, {{0, "norm", false, declared}}, {});
  };
  // One after the other, with an edge more than needed.
  const std::vector<GraphNode> chain = {after({}), after({0}), after({0, 1}), after({2})};
  CHECK(graph_width(chain, 0, 4) == 1);
  CHECK(said(chain, 0).empty());
  // Forked after the first, joined by the last.
  const std::vector<GraphNode> forked = {after({}), after({0}), after({0}), after({2}),
                                         after({1, 3})};
  CHECK(graph_width(forked, 0, 5) == 2);
  CHECK(said(forked, 0) == "norm: has 2 parallel branches and claims 0 side streams");
  CHECK(said(forked, 1).empty());
  CHECK(said(forked, kAnyStreams).empty());
  // Three branches, and an empty node that joins two of them; none of them is work.
  std::vector<GraphNode> three = {after({}), after({}), after({}), after({0, 1}), after({3, 2})};
  three[3].kind = Kind::empty;
  CHECK(said(three, 1).find("has 3 parallel branches") != std::string::npos);
  CHECK(said(three, 2).empty());
  // Two streams that wait for each other half way: the nearest neighbour is the wrong one.
  const std::vector<GraphNode> crossed = {after({}), after({}), after({0, 1}), after({1})};
  CHECK(graph_width(crossed, 0, 4) == 2);
  // Nodes in another order than that of their capture, and what is another op's does not count.
  CHECK(graph_width({after({1}), after({2}), after({})}, 0, 3) == 1);
  const std::vector<GraphMark> marks = {{0, "add", false}, {2, "norm", false, 0}};
  CHECK(audit_graph({after({}), after({}), after({0, 1}), after({2})}, marks, {}).empty());
  CHECK_FALSE(audit_graph({after({}), after({0}), after({1}), after({1})}, marks, {}).empty());
}
