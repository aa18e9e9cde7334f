// SPDX-License-Identifier: Apache-2.0
// What the ranks of one run have recorded (CaseRecorder::result() of each), as one.
#pragma once
#include <vector>

#include "core/base/json.hpp"

namespace fk {

// Calls that are equal on several ranks are one case, counted together; what another rank than the
// first adds is named after it ("decode.3.rank1") and has `rank`. A tensor has the `rank` in whose
// file it lies; one that several have is named once. Counts of calls are sums; `shapes` those of
// the rank that has most.
Json merge_recorded(const std::vector<Json>& by_rank);

}  // namespace fk
