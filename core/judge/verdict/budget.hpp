// SPDX-License-Identifier: Apache-2.0
// Limits of a whole verdict, over all of its cases.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/judge/verdict/verdict.hpp"

namespace fk {

class Budget {
 public:
  Budget() = default;  // without limits
  // `seconds` from now on; 0: no limit. `memory` bytes must stay free; default: a share of the
  // memory that is free now.
  explicit Budget(double seconds, std::optional<int64_t> memory = {});
  // Error when the time is over, or when hardly any of the memory that was free at first is left.
  void need() const;

 private:
  double seconds_ = 0, end_s_ = 0;
  int64_t memory_ = 0;
};

// Marks all cases without a result as not reached.
void name_unreached(std::vector<CaseVerdict>& cases, const std::string& why);

}  // namespace fk
