// SPDX-License-Identifier: Apache-2.0
// attention_varlen by cuDNN: ragged queries, keys and values. Requests of one length are not ragged
// for cuDNN, which is faster. plan() tells forward() by one more number.
#define FK_ATTENTION_VARLEN_EDITION 1
#include "fk/ops/attention_varlen.h"
#include "common.hpp"

namespace {
using namespace fkd;

class AttentionVarlen {
 public:
  using op = fk::attention_varlen;
  static constexpr fk_claims claims{
      FK_END(fk_claims, sm), FK_CUDA, FK_GRAPH_NEVER, 1, 0, FK_ACCUMULATE_F32, 0, 1, kSm};
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& wanted) {
    need_16bit(max.q);
    need(init.head_dim == 64 || init.head_dim == 128, "head_dim: 64 or 128");
    need(init.causal || !init.window, "window: none where attention is not causal");
    for (const fk_in* view : {max.q, max.k, max.v, fk_as_in(max.out)})
      need_layout(view), need_offsets(view);
    wanted.scratch = kWorkspace;
    wanted.plan = numbers(max.cu_seqlens_q->shape[0] - 1) * 4 + 4;
  }
  AttentionVarlen(const fk_host&, const op::init& init, const op::weights&) : init_(init) {}
  void prepare(const op::forward& max, const fk_memory&) {
    q_ = max.q->strides[0], k_ = max.k->strides[0], v_ = max.v->strides[0];
    make_attention(shape(max));
  }
  int64_t plan(const op::plan& a, void* blob, int64_t) {
    const int64_t requests = a.cu_seqlens_q->shape[0] - 1;
    const auto *q = fk::host<int32_t>(a.cu_seqlens_q), *k = fk::host<int32_t>(a.cu_seqlens_k);
    if (!requests) return 0;
    auto* end = write_lengths(static_cast<int32_t*>(blob), q, requests);
    end = write_lengths(end, k, requests);
    end = write_starts(end, q, requests, q_);
    end = write_starts(end, q, requests, init_.num_heads * init_.head_dim);
    end = write_starts(end, k, requests, k_);
    write_starts(end, k, requests, v_);
    bool exact = q[1] % 128 == 0 && k[1] % 128 == 0 && k[1] >= q[1];
    for (int64_t r = 0; r < requests; ++r)
      exact = exact && q[r + 1] == (r + 1) * q[1] && k[r + 1] == (r + 1) * k[1];
    return (numbers(requests) + exact) * 4;
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t n = a.cu_seqlens_q->shape[0];
    if (!a.q->shape[0] || n < 2) return;
    const auto *lengths = static_cast<const int32_t*>(ctx.plan), *starts = lengths + 2 * (n - 1);
    Shape with = shape(a);
    if (ctx.plan_bytes > numbers(n - 1) * 4)
      with.exact = 1, with.queries = a.q->shape[0] / with.requests,
      with.keys = a.k->shape[0] / with.requests;
    run_attention(with, {a.q->data, a.k->data, a.v->data, a.out->data, nullptr, lengths,
                         lengths + n - 1, starts, starts + n, starts + 2 * n, starts + 3 * n,
                         ctx.scratch, ctx.scratch_bytes, static_cast<cudaStream_t>(ctx.stream)});
  }

 private:
  static int64_t numbers(int64_t requests) { return 6 * requests + 4; }
  Shape shape(const op::forward& a) const {
    const int64_t queries = std::min(rounded(a.max_query_len), rounded(a.q->shape[0]));
    const int64_t keys = std::min(rounded(a.max_key_len), rounded(a.k->shape[0]));
    return {FK_DTYPE(a.q) == FK_BF16,
            init_.causal,
            init_.window,
            a.cu_seqlens_q->shape[0] - 1,
            init_.num_heads,
            init_.num_kv_heads,
            init_.head_dim,
            queries,
            keys,
            0,
            a.q->strides[0],
            a.q->strides[1],
            a.k->strides[0],
            a.k->strides[1],
            a.v->strides[0],
            a.v->strides[1],
            0,
            0,
            0,
            0,
            0,
            init_.scale};
  }
  const op::init& init_;
  int64_t q_ = 0, k_ = 0, v_ = 0;
};
FK_OP(attention_varlen, AttentionVarlen);

}  // namespace
