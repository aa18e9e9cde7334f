// SPDX-License-Identifier: Apache-2.0
// Free pages are a stack: pages that were used last are used again first.
#include "core/engines/kv_page_pool.hpp"

#include "core/base/error.hpp"

namespace fk {

KvPagePool::KvPagePool(int64_t pages)
    : total_(pages),
      holders_(static_cast<size_t>(pages)),
      names_(static_cast<size_t>(pages)),
      idle_since_(static_cast<size_t>(pages)) {
  free_.reserve(static_cast<size_t>(pages));
  for (int64_t p = pages; p-- > 0;) free_.push_back(static_cast<int32_t>(p));
}

bool KvPagePool::acquire(int64_t count, std::vector<int32_t>& to) {
  if (count > free()) return false;
  for (; count > 0; --count) {
    int32_t page = -1;
    if (free_.empty()) {
      const auto oldest = idle_.begin();
      page = oldest->second;
      named_.erase(names_[static_cast<size_t>(page)]);
      names_[static_cast<size_t>(page)].clear();
      idle_.erase(oldest);
    } else {
      page = free_.back();
      free_.pop_back();
    }
    holders_[static_cast<size_t>(page)] = 1;
    to.push_back(page);
  }
  return true;
}

void KvPagePool::release(std::vector<int32_t>& from) {
  for (const int32_t page : from) {
    const auto at = static_cast<size_t>(page);
    FK_CHECK(holders_.at(at) > 0, "a page of the cache was released twice");
    if (--holders_[at] > 0) continue;
    if (names_[at].empty())
      free_.push_back(page);
    else
      idle_[idle_since_[at] = ++releases_] = page;
  }
  from.clear();
}

void KvPagePool::name(int32_t page, const std::string& key) {
  const auto at = static_cast<size_t>(page);
  FK_CHECK(holders_.at(at) > 0, "a page of the cache got a name without a holder");
  if (names_[at].empty() && named_.try_emplace(key, page).second) names_[at] = key;
}

bool KvPagePool::share(const std::string& key, std::vector<int32_t>& to) {
  const auto found = named_.find(key);
  if (found == named_.end()) return false;
  const auto at = static_cast<size_t>(found->second);
  if (holders_[at]++ == 0) idle_.erase(idle_since_[at]);
  to.push_back(found->second);
  return true;
}

}  // namespace fk
