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
        "add: a fill has the address 0x4fff (2 bytes), which is not in memory that the host has "
        "given");
}

TEST_CASE("what was captured before the first mark is the host's") {
  const std::vector<GraphMark> marks = {{1, "add", true}};
  CHECK(audit_graph({kernel({0x9999}), kernel({0x1000})}, marks, kKnown).empty());
  CHECK_FALSE(audit_graph({kernel({0x1000}), kernel({0x9999})}, marks, kKnown).empty());
}
