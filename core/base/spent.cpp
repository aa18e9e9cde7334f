// SPDX-License-Identifier: Apache-2.0
// Adds up seconds by activity (spent.hpp).
#include "core/base/spent.hpp"

#include <algorithm>

#include "core/base/clock.hpp"

namespace fk {

void Spent::enter(const std::string& what) {
  const double now = now_seconds();
  if (!what_.empty()) {
    auto it =
        std::find_if(all_.begin(), all_.end(), [&](const auto& s) { return s.first == what_; });
    if (it == all_.end()) it = all_.insert(it, {what_, 0.0});
    it->second += now - since_s_;
  }
  what_ = what;
  since_s_ = now;
}

}  // namespace fk
