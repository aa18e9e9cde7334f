// SPDX-License-Identifier: Apache-2.0
// attention_varlen on tensor cores, after FlashAttention-3 (flash_attention3_plan.cuh). Heads wider
// than 128 go by flash_attention2.cuh.
#define FK_ATTENTION_VARLEN_EDITION 1
#include "../parts/op.cuh"
#include "fk/ops/attention_varlen.h"

#include "flash_attention3_plan.cuh"
#include "paged.cuh"

namespace {
using namespace fkc;

struct AttentionVarlen : Base<fk::attention_varlen> {
  using Base::Base;
  // The grid is as large as the list of plan(), so no graph can capture the call.
  static constexpr fk_claims claims = claims_of(FK_GRAPH_NEVER, 0);
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need& wanted) {
    need_16bit(max.q);
    need(init.head_dim % 8 == 0 && init.head_dim <= 256, "head_dim: a multiple of 8 up to 256");
    need(init.scale > 0, "scale: above 0 only");
    for (const fk_in* view : {max.q, max.k, max.v, fk_as_in(max.out)}) need_aligned(view);
    if (is_wide(init)) {
      need(init.causal || !init.window, "window: none where attention is not causal and heads are wider than 128");
      wanted.plan = attention_plan_bytes(max.q->shape[0], max.cu_seqlens_q->shape[0] - 1, heads_of(init).group);
      return;
    }
    wanted.plan = tiles::plan_bytes(max.q->shape[0], max.cu_seqlens_q->shape[0] - 1, heads_of(init));
  }
  int64_t plan(const op::plan& a, void* blob, int64_t) {
    const auto *q = fk::host<int32_t>(a.cu_seqlens_q), *k = fk::host<int32_t>(a.cu_seqlens_k);
    if (is_wide(init)) return plan_attention(q, a.cu_seqlens_q->shape[0] - 1, heads_of(init).group, blob);
    const auto request_of = [&](int64_t r) { return tiles::Request{q[r], q[r + 1] - q[r], k[r + 1] - k[r], k[r]}; };
    return tiles::plan(a.cu_seqlens_q->shape[0] - 1, heads_of(init), init.window, init.causal, request_of, blob);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    if (is_wide(init)) return attend_wide(a, ctx);
    tiles::Arguments p{};
    p.out = a.out->data, p.out_token = a.out->strides[0], p.out_head = a.out->strides[1];
    p.window = int(init.window), p.causal = int(init.causal), p.scale = float(init.scale) * kLog2e;
    dispatch(a.q, [&](auto type) { tiles::attend<decltype(type), true>(p, heads_of(init), a.q, a.k, a.v, ctx); });
  }

 private:
  static bool is_wide(const op::init& init) { return init.head_dim > 128; }
  static tiles::Heads heads_of(const op::init& init) { return {init.num_heads, init.num_kv_heads, init.head_dim}; }
  void attend_wide(const op::forward& a, const fk_ctx& ctx) const {
    if (!a.q->shape[0]) return;
    AttentionParams p{};
    p.q = a.q->data, p.out = a.out->data;
    p.q_token = a.q->strides[0], p.q_head = a.q->strides[1], p.out_token = a.out->strides[0], p.out_head = a.out->strides[1];
    p.k = {a.k->data, 0, a.k->strides[0], a.k->strides[1]}, p.v = {a.v->data, 0, a.v->strides[0], a.v->strides[1]};
    p.starts = fk::data<int32_t>(a.cu_seqlens_q), p.key_starts = fk::data<int32_t>(a.cu_seqlens_k);
    p.heads = int(init.num_heads), p.group = int(heads_of(init).group);
    p.window = int(init.window), p.causal = int(init.causal), p.scale = float(init.scale);
    dispatch(a.q, [&](auto type) { attend_rows<decltype(type), 129>(p, init.num_kv_heads, init.head_dim, ctx); });
  }
};
FK_OP(attention_varlen, AttentionVarlen);

}  // namespace
