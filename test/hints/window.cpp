// SPDX-License-Identifier: Apache-2.0
// wrong: the window is larger by one
// hint: attribute_off_by_one
// says: window is off by one
// next: Check the bound that window gives: < or <=, and whether the element itself counts.
#include "attention.hpp"

namespace {

struct Window : hints::ChangedAttention {
  Window(const fk_host& host, const op::init& given, const op::weights& weights)
      : ChangedAttention(host, given, weights) {
    own.window += own.window > 0;
  }
};
FK_OP(attention_varlen, Window);

}  // namespace
FK_PLUGIN("wrong_window", "0");
