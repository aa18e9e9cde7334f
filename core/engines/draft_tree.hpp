// SPDX-License-Identifier: Apache-2.0
// A tree of guesses how a text goes on, as EAGLE-2 and 3 grow it: level by level, only below the
// most probable nodes, and at the end only the most probable of all are kept. Knows no tensors.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace fk {

struct DraftNode {
  int64_t token = 0;
  int32_t parent = -1, depth = 0;
  float score = 0;  // logarithm of the probability of the path from the root, as the draft sees it
  int32_t place = -1;  // its number among the nodes that were expanded; -1: it was not
};

class DraftTree {
 public:
  // Starts again with nothing but a root.
  void begin(int64_t token);
  void add_child(int32_t parent, int64_t token, float logprob);
  // The `count` most probable nodes of the deepest level, to be expanded: they get places.
  const std::vector<int32_t>& expand(int64_t count);
  // Keeps the root and the most probable others, `count` nodes in all. A parent is never less
  // probable than its child, so what is kept is a tree; parents stay in front of their children.
  void prune(int64_t count);

  int32_t size() const { return static_cast<int32_t>(nodes_.size()); }
  const DraftNode& operator[](int32_t i) const { return nodes_[static_cast<size_t>(i)]; }
  // Nodes by place, valid until prune().
  const std::vector<int32_t>& expanded() const { return expanded_; }
  // The child with this token; -1 if there is none.
  int32_t child(int32_t parent, int64_t token) const;
  // Whether `node` is on the path from the root to `other`, or `other` itself.
  bool leads_to(int32_t node, int32_t other) const;

 private:
  std::vector<int32_t> best(int32_t first, int64_t count) const;
  std::vector<DraftNode> nodes_;
  std::vector<int32_t> expanded_, frontier_;
};

}  // namespace fk
