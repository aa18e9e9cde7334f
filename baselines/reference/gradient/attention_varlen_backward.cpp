// SPDX-License-Identifier: Apache-2.0
// attention_varlen_backward: for each query and head, the weights p of its keys. Product g_j is that
// of the gradient and value j. The gradients of scores are d = p * (g - sum of p * g).
#include "fk/ops/attention_varlen_backward.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct AttentionVarlenBackward : Base<attention_varlen_backward> {
  using Base::Base;
  struct Rows {
    double *q, *grad, *dq, *weights, *products;
    double *dk, *dv;  // of all keys
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : q(s.take(i.head_dim)),
          grad(s.take(i.head_dim)),
          dq(s.take(i.head_dim)),
          weights(s.take(args.k->shape[0])),
          products(s.take(args.k->shape[0])),
          dk(s.take(fk_numel(args.k))),
          dv(s.take(fk_numel(args.k))) {}
  };
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.q, max.k, max.v, max.grad, max.dq, max.dk, max.dv);
    if (init.num_heads % init.num_kv_heads)
      throw unsupported{"num_heads is not a multiple of num_kv_heads"};
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, init, args);
    const int64_t numbers = fk_numel(args.k);
    std::fill_n(row.dk, numbers, 0.0);
    std::fill_n(row.dv, numbers, 0.0);
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
        for (int64_t h = 0; h < init.num_heads; ++h) one_query(args, t, h, from, to, row);
      }
    }
    const int64_t width = init.num_kv_heads * init.head_dim;
    for (int64_t j = 0; j < args.k->shape[0]; ++j) {
      store(args.dk, offset(args.dk, j), width, row.dk + j * width);
      store(args.dv, offset(args.dv, j), width, row.dv + j * width);
    }
  }

 private:
  void one_query(const op::forward& args, int64_t t, int64_t h, int64_t from, int64_t to,
                 const Rows& row) const {
    const int64_t g = h / (init.num_heads / init.num_kv_heads), width = init.head_dim;
    load(args.q, offset(args.q, t, h), width, row.q);
    load(args.grad, offset(args.grad, t, h), width, row.grad);
    std::fill_n(row.dq, width, 0.0);
    double mean = 0;  // of the products, by weight
    Attention{.scale = init.scale}(
        from, to, row.weights,
        [&](int64_t j) { return dot_view(args.k, offset(args.k, j, g), row.q, width); },
        [&](int64_t j, double p) {
          row.weights[j - from] = p;
          row.products[j - from] = dot_view(args.v, offset(args.v, j, g), row.grad, width);
          mean += p * row.products[j - from];
        });
    for (int64_t j = from; j < to; ++j) {
      const double p = row.weights[j - from];
      const double d = init.scale * p * (row.products[j - from] - mean);
      add_scaled(args.k, offset(args.k, j, g), width, d, row.dq);
      double* dk = row.dk + (j * init.num_kv_heads + g) * width;
      double* dv = row.dv + (j * init.num_kv_heads + g) * width;
      for (int64_t c = 0; c < width; ++c) dk[c] += d * row.q[c], dv[c] += p * row.grad[c];
    }
    store(args.dq, offset(args.dq, t, h), width, row.dq);
  }
};
FK_OP(attention_varlen_backward, AttentionVarlenBackward);

}  // namespace
}  // namespace fk::reference
