// SPDX-License-Identifier: Apache-2.0
#include "core/referee/run_report.hpp"

namespace fk {

int RunReport::exit_code() const {
  if (!error.empty()) return 3;
  for (const auto& candidate : candidates)
    if (candidate.verdict != "correct" && candidate.verdict != "unused") return 1;
  return 0;
}

}  // namespace fk
