// SPDX-License-Identifier: Apache-2.0
// Judges a PASS of `check` again, without times. Rows of `check` come from the plugin's own
// process, where any code could write them. So the judge (core/judge) compares the values from
// outside.
#pragma once
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/check/check.hpp"
#include "core/store/key.hpp"

namespace fk {

struct Recheck {
  Status status = Status::unjudged;  // the judge's
  std::string why;
  bool disagrees = false;  // `rows` contain no fault, but the judge finds one
};

// Judges the question's cases. `rows` are those of `check` for them. No rows means that `check` had
// other cases; then a refusal proves nothing. Other dtypes and layouts are judged only when no case
// is taken as written.
Recheck recheck(Question question, const std::vector<CheckRow>& rows);

}  // namespace fk
