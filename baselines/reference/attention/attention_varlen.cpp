// SPDX-License-Identifier: Apache-2.0
// attention_varlen: softmax attention of each query over the keys of its sequence. The last query
// is at the position of the last key; a query that sees no key gives 0.
#define FK_ATTENTION_VARLEN_EDITION 2  // with the field that the contract marks `since: 2`
#include "fk/ops/attention_varlen.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct AttentionVarlen : Base<attention_varlen> {
  using Base::Base;
  struct Rows {
    double *q, *out, *scores;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : q(s.take(i.head_dim)), out(s.take(i.head_dim)), scores(s.take(args.k->shape[0])) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(max.q, max.k, max.v, max.out);
    if (init.num_heads % init.num_kv_heads)
      throw unsupported{"num_heads is not a multiple of num_kv_heads"};
    need_odd_rows(weights.distance_bias.or_null);
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, init, args);
    for (int64_t b = 0; b + 1 < args.cu_seqlens_q->shape[0]; ++b) {
      const int64_t first = index<int32_t>(args.cu_seqlens_q, b);
      const int64_t last = index<int32_t>(args.cu_seqlens_q, b + 1);
      const int64_t first_key = index<int32_t>(args.cu_seqlens_k, b);
      const int64_t last_key = index<int32_t>(args.cu_seqlens_k, b + 1);
      for (int64_t t = first; t < last; ++t) {
        const int64_t self = last_key - last + t;  // the key at the query's own position
        int64_t from = first_key, to = last_key;
        if (init.window > 0) from = std::max(from, self - init.window + 1);
        if (init.window > 0) to = std::min(to, self + init.window);
        if (init.causal) to = std::min(to, self + 1);
        for (int64_t h = 0; h < init.num_heads; ++h) attend(args, t, h, self, from, to, row);
      }
    }
  }

 private:
  // Attention of head h of token t over the keys [from, to); `self` is the key at its position.
  void attend(const op::forward& args, int64_t t, int64_t h, int64_t self, int64_t from, int64_t to,
              const Rows& row) const {
    const int64_t g = h / (init.num_heads / init.num_kv_heads), width = init.head_dim;
    load(args.q, offset(args.q, t, h), width, row.q);
    std::fill_n(row.out, width, 0.0);
    Attention attention{.scale = init.scale, .position = self};
    attention.look_up(weights.distance_bias.or_null, h);
    attention(
        from, to, row.scores,
        [&](int64_t j) { return dot_view(args.k, offset(args.k, j, g), row.q, width); },
        [&](int64_t j, double p) { add_scaled(args.v, offset(args.v, j, g), width, p, row.out); });
    store(args.out, offset(args.out, t, h), width, row.out);
  }
};
FK_OP(attention_varlen, AttentionVarlen);

}  // namespace
}  // namespace fk::reference
