// SPDX-License-Identifier: Apache-2.0
//
// Finds all keys which a text begins with.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fk::text {

/// An immutable set of texts with values. Memory: about ten bytes for each byte of the keys.
class ByteTrie {
 public:
  ByteTrie() = default;
  /// The first one of equal keys stays. Values are 0 or more.
  explicit ByteTrie(std::vector<std::pair<std::string, int32_t>> entries);

  bool empty() const { return nodes_.size() < 2; }

  /// Calls found(size of the key, value) for each key which is a prefix, the shortest first.
  template <class Found>
  void prefixes(std::string_view text, const Found& found) const {
    if (empty()) return;
    uint32_t node = 0;
    for (std::size_t at = 0; at < text.size(); ++at) {
      node = child(node, static_cast<unsigned char>(text[at]));
      if (node == 0) return;
      if (nodes_[node].value >= 0) found(at + 1, nodes_[node].value);
    }
  }

 private:
  struct Node {
    uint32_t first = 0;  // child
    uint16_t count = 0;  // of children, which are neighbours, sorted by byte
    uint8_t byte = 0;    // from the parent
    int32_t value = -1;
  };

  uint32_t child(uint32_t node, unsigned char byte) const {
    uint32_t low = nodes_[node].first, high = low + nodes_[node].count;
    if (high - low == 256) return low + byte;
    while (low < high) {
      const uint32_t middle = (low + high) / 2;
      if (nodes_[middle].byte < byte) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low < nodes_[node].first + nodes_[node].count && nodes_[low].byte == byte ? low : 0;
  }

  std::vector<Node> nodes_;  // the root first
};

}  // namespace fk::text
