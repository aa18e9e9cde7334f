// SPDX-License-Identifier: Apache-2.0

#include "core/text/byte_trie.hpp"

#include <algorithm>

namespace fk::text {

ByteTrie::ByteTrie(std::vector<std::pair<std::string, int32_t>> entries) {
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  // Level by level, so that children of one node are neighbours. A node waits with its entries.
  struct Waiting {
    uint32_t node;
    std::size_t begin, end, depth;
  };
  std::vector<Waiting> waiting = {{0, 0, entries.size(), 0}};
  nodes_.emplace_back();
  for (std::size_t next = 0; next < waiting.size(); ++next) {
    auto [node, begin, end, depth] = waiting[next];
    if (begin < end && entries[begin].first.size() == depth) {
      if (depth > 0) nodes_[node].value = entries[begin].second;
      while (begin < end && entries[begin].first.size() == depth) ++begin;
    }
    nodes_[node].first = static_cast<uint32_t>(nodes_.size());
    while (begin < end) {
      const char byte = entries[begin].first[depth];
      std::size_t last = begin;
      while (last < end && entries[last].first[depth] == byte) ++last;
      waiting.push_back({static_cast<uint32_t>(nodes_.size()), begin, last, depth + 1});
      nodes_.emplace_back();
      nodes_.back().byte = static_cast<uint8_t>(byte);
      ++nodes_[node].count;
      begin = last;
    }
  }
}

}  // namespace fk::text
