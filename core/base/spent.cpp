// SPDX-License-Identifier: Apache-2.0
#include "core/base/spent.hpp"

#include <algorithm>
#include <chrono>

namespace fk {

void Spent::enter(const std::string& what) {
  const double now =
      std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
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
