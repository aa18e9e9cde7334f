// SPDX-License-Identifier: Apache-2.0
// What one verdict may take as a whole, whatever its cases are.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/judge/verdict/verdict.hpp"

namespace fk {

class Budget {
 public:
  Budget() = default;  // without end
  // From now on; 0: without end. So many bytes have to stay free; without a number it is a share of
  // those that are free now.
  explicit Budget(double seconds, std::optional<int64_t> memory = {});
  // Error when the time is spent, or when hardly any of the memory is left that was free at first.
  void need() const;

 private:
  double seconds_ = 0, end_s_ = 0;
  int64_t memory_ = 0;
};

// Says of all cases about which nothing is said yet that they were not reached.
void name_unreached(std::vector<CaseVerdict>& cases, const std::string& why);

}  // namespace fk
