// SPDX-License-Identifier: Apache-2.0
// Free pages are a stack: pages that were used last are used again first.
#include "core/engines/kv_page_pool.hpp"

#include "core/base/error.hpp"

namespace fk {

KvPagePool::KvPagePool(int64_t pages) : total_(pages), held_(static_cast<size_t>(pages), false) {
  free_.reserve(static_cast<size_t>(pages));
  for (int64_t p = pages; p-- > 0;) free_.push_back(static_cast<int32_t>(p));
}

bool KvPagePool::acquire(int64_t count, std::vector<int32_t>& to) {
  if (count > free()) return false;
  for (; count > 0; --count) {
    to.push_back(free_.back());
    held_[static_cast<size_t>(free_.back())] = true;
    free_.pop_back();
  }
  return true;
}

void KvPagePool::release(std::vector<int32_t>& from) {
  for (const int32_t page : from) {
    FK_CHECK(held_.at(static_cast<size_t>(page)), "a page of the cache was released twice");
    held_[static_cast<size_t>(page)] = false;
    free_.push_back(page);
  }
  from.clear();
}

}  // namespace fk
