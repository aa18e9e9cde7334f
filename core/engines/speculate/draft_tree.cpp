// SPDX-License-Identifier: Apache-2.0
// The nodes are stored level by level, so parents come before their children (draft_tree.hpp).
#include "core/engines/speculate/draft_tree.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/base/error.hpp"

namespace fk {

void DraftTree::begin(int64_t token) {
  nodes_.assign(1, DraftNode{token});
  expanded_.clear();
}

void DraftTree::add_child(int32_t parent, int64_t token, float logprob) {
  const DraftNode& p = (*this)[parent];
  // A draft's NaN becomes the least probable guess. Errors of a draft only cost time.
  const float own =
      std::isnan(logprob) ? -std::numeric_limits<float>::infinity() : std::min(logprob, 0.F);
  nodes_.push_back({token, parent, p.depth + 1, p.score + own, /*place=*/-1});
}

// The most probable nodes from `first` on, in their old order; earlier ones win ties.
std::vector<int32_t> DraftTree::best(int32_t first, int64_t count) const {
  std::vector<int32_t> list(static_cast<size_t>(size() - first));
  std::iota(list.begin(), list.end(), first);
  std::stable_sort(list.begin(), list.end(),
                   [this](int32_t a, int32_t b) { return (*this)[a].score > (*this)[b].score; });
  if (static_cast<int64_t>(list.size()) > count) list.resize(static_cast<size_t>(count));
  std::sort(list.begin(), list.end());
  return list;
}

const std::vector<int32_t>& DraftTree::expand(int64_t count) {
  int32_t first = size() - 1;
  while (first > 0 && (*this)[first - 1].depth == nodes_.back().depth) --first;
  frontier_ = best(first, count);
  for (const int32_t i : frontier_) {
    nodes_[static_cast<size_t>(i)].place = static_cast<int32_t>(expanded_.size());
    expanded_.push_back(i);
  }
  return frontier_;
}

void DraftTree::prune(int64_t count) {
  FK_CHECK(count > 0, "a tree without a root");
  std::vector<DraftNode> kept{nodes_[0]};
  std::vector<int32_t> place(nodes_.size(), -1);  // by old index: new index
  place[0] = 0;
  for (const int32_t i : best(1, count - 1)) {
    place[static_cast<size_t>(i)] = static_cast<int32_t>(kept.size());
    DraftNode node = (*this)[i];
    node.parent = place[static_cast<size_t>(node.parent)];
    FK_CHECK(node.parent >= 0, "a node was kept without its parent");
    kept.push_back(node);
  }
  nodes_ = std::move(kept);
  expanded_.clear();
}

int32_t DraftTree::child(int32_t parent, int64_t token) const {
  for (int32_t i = parent + 1; i < size(); ++i)
    if ((*this)[i].parent == parent && (*this)[i].token == token) return i;
  return -1;
}

bool DraftTree::leads_to(int32_t node, int32_t other) const {
  while (other > node) other = (*this)[other].parent;
  return other == node;
}

}  // namespace fk
