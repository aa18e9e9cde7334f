// SPDX-License-Identifier: Apache-2.0
// The first rank takes a request from its ring and tells the other ranks in the meeting: none, one,
// or the end. The other ranks then take the same request from their own rings.
#include "core/worker/rank_exchange.hpp"

#include "core/base/error.hpp"

namespace fk {

bool RankExchange::next(Request& request, bool wait) {
  enum : uint64_t { kNone, kOne, kClosed };
  uint64_t says = kNone;
  if (meeting_.rank() == 0) {
    if (own_.next(request, wait))
      says = kOne;
    else if (wait)
      says = kClosed;
  }
  // While idle, the others wait as long as the first rank does.
  const bool idle = wait && meeting_.rank() != 0;
  says = meeting_.first_says("next_request", says, idle ? Meeting::kNoLimit : meeting_.patience());
  if (meeting_.rank() == 0 || says == kNone) return says == kOne;
  if (own_.next(request, true) != (says == kOne))
    fail("ranks", "the ranks were not given the same requests");
  return says == kOne;
}

}  // namespace fk
