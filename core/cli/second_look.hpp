// SPDX-License-Identifier: Apache-2.0
// Rows of `check` are what the plugin's own process says, and whatever runs in there can write the
// same without computing anything. So a PASS is held beside what the judge (core/judge)
// finds of the values from outside, untimed.
#pragma once
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/store/key.hpp"

namespace fk {

struct SecondLook {
  Status status = Status::unjudged;  // the judge's
  std::string why;
  bool disagrees = false;  // with rows that have nothing against the plugin
};

// Judges the cases that the question names, of which `rows` are those of `check`, or none where it
// had other cases: then a refusal says nothing. In other dtypes and layouts only where none is
// taken as it is written.
SecondLook second_look(Question question, const std::vector<Json>& rows);

}  // namespace fk
