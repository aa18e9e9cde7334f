// SPDX-License-Identifier: Apache-2.0
// Device memory that a model needs, computed from its recorded graphs. Also the number of cache
// pages when there is less memory than wanted. Allocates nothing.
#pragma once
#include <cstdint>

#include "core/contract/contract.hpp"
#include "core/exec/model.hpp"

namespace fk {

// Memory in addition to weights and states. A process has a context and code. A session has its
// arena, packed weights and captured graphs: at real sizes less than 1.5 GiB here.
inline constexpr int64_t kProcessBytes = int64_t{2} << 30;
inline constexpr int64_t kSessionBytes = int64_t{2} << 30;

// Bytes for the rank of the limits.
int64_t weights_bytes(const Model& model, const Catalog& catalog, const Limits& limits);
int64_t states_bytes(const Model& model, const Catalog& catalog, const Limits& limits);

// Bytes in float32 of the largest output of a phase, with all requests of a step. A request's
// result is no larger, unless an engine joins the outputs of many steps.
uint64_t result_bytes(const Model& model, const Catalog& catalog, const Limits& limits);

class CacheRoom {
 public:
  CacheRoom(const Model& model, const Catalog& catalog, const Limits& limits);
  bool has_pages() const { return page_ > 0; }
  // Pages for the limits; the meaning of `pages: 0`.
  int64_t wanted() const { return wanted_; }
  int64_t bytes(int64_t pages) const { return none_ + pages * page_; }
  // Number of pages that fit into `bytes` of states, at most wanted(); 0: not even one.
  int64_t pages_in(int64_t bytes) const;

 private:
  int64_t none_ = 0, page_ = 0, wanted_ = 0;  // bytes without pages; bytes per page; pages
};

}  // namespace fk
