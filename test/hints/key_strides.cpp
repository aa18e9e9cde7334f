// SPDX-License-Identifier: Apache-2.0
// wrong: k is read as if its rows had no gaps
// hint: strided
// says: wrong only where rows are strided: in cases with gaps in q, k, v
// next: Compute addresses from strides in each of q, k, v. Only the last axis of a tensor is dense.
#include "attention.hpp"

namespace {

struct KeyStrides : hints::Attention {
  using Attention::Attention;
  Row key(const op::forward& args, int64_t s, int64_t group) const override {
    Row row(static_cast<size_t>(init.head_dim));
    fk::load(args.k, (s * init.num_kv_heads + group) * init.head_dim, init.head_dim, row.data());
    return row;
  }
};
FK_OP(attention_varlen, KeyStrides);

}  // namespace
FK_PLUGIN("wrong_key_strides", "0");
