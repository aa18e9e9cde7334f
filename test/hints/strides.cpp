// SPDX-License-Identifier: Apache-2.0
// wrong: q is read as if its rows had no gaps
// hint: strided
// says: wrong only where rows are strided
// next: Compute the addresses of q from q->strides. Only its last axis is dense.
#include "attention.hpp"

namespace {

struct Strides : hints::Attention {
  using Attention::Attention;
  Row query(const op::forward& args, int64_t t, int64_t h) const override {
    Row row(static_cast<size_t>(init.head_dim));
    fk::load(args.q, (t * init.num_heads + h) * init.head_dim, init.head_dim, row.data());
    return row;
  }
};
FK_OP(attention_varlen, Strides);

}  // namespace
FK_PLUGIN("wrong_strides", "0");
