// SPDX-License-Identifier: Apache-2.0
// What a model needs of a device's memory, from its recorded graphs alone, and how many pages its
// caches have where there is less room than they are wanted for. Nothing is allocated.
#pragma once
#include <cstdint>

#include "core/contract/contract.hpp"
#include "core/exec/model.hpp"

namespace fk {

// Beside weights and states: a process has a context and code, a session its arena, packed weights
// and captured graphs, of the real sizes here less than 1.5 GiB.
inline constexpr int64_t kProcessBytes = int64_t{2} << 30;
inline constexpr int64_t kSessionBytes = int64_t{2} << 30;

// Bytes of one rank, that of the limits.
int64_t weights_bytes(const Model& model, const Catalog& catalog, const Limits& limits);
int64_t states_bytes(const Model& model, const Catalog& catalog, const Limits& limits);

class CacheRoom {
 public:
  CacheRoom(const Model& model, const Catalog& catalog, const Limits& limits);
  bool has_pages() const { return page_ > 0; }
  // That the limits ask for; what `pages: 0` stands for.
  int64_t wanted() const { return wanted_; }
  int64_t bytes(int64_t pages) const { return none_ + pages * page_; }
  // Most pages of so many bytes of states, at most those wanted; 0: not one.
  int64_t pages_in(int64_t bytes) const;

 private:
  int64_t none_ = 0, page_ = 0, wanted_ = 0;  // bytes without pages, of a page
};

}  // namespace fk
