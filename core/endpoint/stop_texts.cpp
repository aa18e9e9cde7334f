// SPDX-License-Identifier: Apache-2.0
#include "core/endpoint/stop_texts.hpp"

#include <algorithm>
#include <utility>

namespace fk {

std::string StopTexts::push(std::string_view text) {
  if (stopped_) return {};
  held_ += text;
  size_t first = held_.npos, begun = 0;
  for (const std::string& stop : stops_) {
    first = std::min(first, held_.find(stop));
    for (size_t n = std::min(stop.size() - 1, held_.size()); n > begun; --n)
      if (held_.compare(held_.size() - n, n, stop, 0, n) == 0) begun = n;
  }
  stopped_ = first != held_.npos;
  const size_t certain = stopped_ ? first : held_.size() - begun;
  std::string out = held_.substr(0, certain);
  held_.erase(0, stopped_ ? held_.size() : certain);
  return out;
}

std::string StopTexts::finish() { return std::exchange(held_, {}); }

}  // namespace fk
