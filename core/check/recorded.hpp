// SPDX-License-Identifier: Apache-2.0
// Merges the recordings of all ranks of one run (CaseRecorder::result() of each).
#pragma once
#include <vector>

#include "core/exec/recording.hpp"

namespace fk {

// Equal calls of several ranks become one case, with the sum of their counts. A case that only a
// later rank has is named after it ("decode.3.rank1") and has `rank`. A tensor has the `rank` of
// its file; a tensor of several ranks is named once. `shapes` are those of the rank with most.
Recording merge_recorded(const std::vector<Recording>& by_rank);

}  // namespace fk
