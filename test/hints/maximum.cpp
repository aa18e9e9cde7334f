// SPDX-License-Identifier: Apache-2.0
// wrong: exp() without the maximum of the row
// hint: softmax_without_maximum
// says: exp() without the row's maximum
// next: Subtract the maximum of the row before exp(): exp() overflows in float32 beyond 88, and its
// sum is 0 below -103.
#include "attention.hpp"

namespace {

struct Maximum : hints::Attention {
  using Attention::Attention;
  float largest(const Row&) const override { return 0; }
};
FK_OP(attention_varlen, Maximum);

}  // namespace
FK_PLUGIN("wrong_maximum", "0");
