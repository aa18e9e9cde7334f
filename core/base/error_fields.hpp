// SPDX-License-Identifier: Apache-2.0
// An Error inside a message or an answer.
#pragma once
#include <string>

#include "core/base/error.hpp"
#include "core/base/field_list.hpp"

namespace fk {

struct ErrorFields {
  std::string where, what, hint;  // as in Error; empty: none
  FK_FIELDS(where, what, hint)

  static ErrorFields of(const Error& error) {
    return {error.where(), error.what_text(), error.hint()};
  }
};

}  // namespace fk
