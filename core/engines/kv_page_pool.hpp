// SPDX-License-Identifier: Apache-2.0
// The pages of a paged cache. A page may have a name for its contents, so that requests which begin
// equally share it. It keeps the name while it is free, until it is needed for other contents.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fk {

class KvPagePool {
 public:
  explicit KvPagePool(int64_t pages);
  int64_t total() const { return total_; }
  int64_t free() const { return static_cast<int64_t>(free_.size() + idle_.size()); }
  // Appends `count` pages to `to`. If fewer are free: false, and `to` stays unchanged. Pages
  // without a name go first, then those which are free the longest.
  bool acquire(int64_t count, std::vector<int32_t>& to);
  // Takes all pages back and empties the list. FK_CHECK: a page comes back once from each holder.
  void release(std::vector<int32_t>& from);

  // Names a held page. Without effect if it has a name, or another page has this one.
  void name(int32_t page, const std::string& key);
  // Appends the page of this name, which has one more holder then. False: there is none.
  bool share(const std::string& key, std::vector<int32_t>& to);
  bool has_names() const { return !named_.empty(); }

 private:
  int64_t total_;
  std::vector<int32_t> free_;  // without names, a stack: the last page goes out first
  std::vector<int32_t> holders_;
  std::vector<std::string> names_;        // by page; empty: none
  std::map<std::string, int32_t> named_;  // the reverse
  std::map<uint64_t, int32_t> idle_;      // free pages with names, by the time of their release
  std::vector<uint64_t> idle_since_;
  uint64_t releases_ = 0;
};

}  // namespace fk
