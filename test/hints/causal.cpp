// SPDX-License-Identifier: Apache-2.0
// wrong: causality is ignored
// hint: attribute_other_value
// says: causal is not read
// next: Read causal from init in place of a constant.
#include "attention.hpp"

namespace {

struct Causal : hints::ChangedAttention {
  Causal(const fk_host& host, const op::init& given, const op::weights& weights)
      : ChangedAttention(host, given, weights) {
    own.causal = 0;
  }
};
FK_OP(attention_varlen, Causal);

}  // namespace
FK_PLUGIN("wrong_causal", "0");
