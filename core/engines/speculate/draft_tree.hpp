// SPDX-License-Identifier: Apache-2.0
// A tree of guesses for the next tokens of a text, as in EAGLE-2 and EAGLE-3. A draft model makes
// the guesses (speculate.cpp). The tree grows level by level, below the most probable nodes only.
// At the end only the most probable nodes of all are kept. It contains no tensors.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace fk {

struct DraftNode {
  int64_t token = 0;
  int32_t parent = -1, depth = 0;
  float score = 0;     // log probability of the path from the root, by the draft
  int32_t place = -1;  // its number among the expanded nodes; -1: not expanded
};

class DraftTree {
 public:
  // Starts a new tree with a root only.
  void begin(int64_t token);
  void add_child(int32_t parent, int64_t token, float logprob);
  // Chooses the `count` most probable nodes of the deepest level, the parents of the next level,
  // and gives them places.
  const std::vector<int32_t>& expand(int64_t count);
  // Keeps the root and the most probable others, `count` nodes in all. A parent is at least as
  // probable as its child, so the kept nodes form a tree. Parents stay in front of their children.
  void prune(int64_t count);

  int32_t size() const { return static_cast<int32_t>(nodes_.size()); }
  const DraftNode& operator[](int32_t i) const { return nodes_[static_cast<size_t>(i)]; }
  // Nodes by place; valid until prune().
  const std::vector<int32_t>& expanded() const { return expanded_; }
  // The child with this token; -1: none.
  int32_t child(int32_t parent, int64_t token) const;
  // True when `node` is `other`, or is on the path from the root to `other`.
  bool leads_to(int32_t node, int32_t other) const;

 private:
  std::vector<int32_t> best(int32_t first, int64_t count) const;
  std::vector<DraftNode> nodes_;
  std::vector<int32_t> expanded_, frontier_;
};

}  // namespace fk
