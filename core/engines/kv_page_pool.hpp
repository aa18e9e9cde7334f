// SPDX-License-Identifier: Apache-2.0
// The free pages of a paged cache.
#pragma once
#include <cstdint>
#include <vector>

namespace fk {

class KvPagePool {
 public:
  explicit KvPagePool(int64_t pages);
  int64_t total() const { return total_; }
  int64_t free() const { return static_cast<int64_t>(free_.size()); }
  // Appends `count` pages to `to`. If fewer are free: false, and `to` stays unchanged.
  bool acquire(int64_t count, std::vector<int32_t>& to);
  // Takes all pages back and empties the list. FK_CHECK: a page comes back once.
  void release(std::vector<int32_t>& from);

 private:
  int64_t total_;
  std::vector<int32_t> free_;  // a stack: the last page goes out first
  std::vector<bool> held_;
};

}  // namespace fk
