// SPDX-License-Identifier: Apache-2.0
// paged_attention on tensor cores: attention_decode.cuh for few query rows, attention_prefill.cuh for many.
#define FK_PAGED_ATTENTION_EDITION 2
#include "attention.cuh"
#include "fk/ops/paged_attention.h"

namespace {
using namespace fkc;

struct PagedAttention : Base<fk::paged_attention> {
  using Base::Base;
  // How far a context is split depends on the batch. With several tokens per request the grid is what
  // plan() listed, so only decode can be captured.
  static constexpr fk_claims claims = claims_of(FK_GRAPH_UNIFORM_DECODE, 0);
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need& wanted) {
    need_16bit(max.q);
    need(FK_DTYPE(max.k_cache) == FK_DTYPE(max.q), "k_cache: the dtype of q only");
    need(init.head_dim == 64 || init.head_dim == 128, "head_dim: 64 or 128");
    need(init.causal || !init.window, "window: none where attention is not causal");
    need_aligned(max.q);
    need_aligned(max.k_cache);
    need_aligned(max.v_cache);
    wanted.plan = attention_plan_bytes(max.q->shape[0], max.seq_lens->shape[0], init.num_heads / init.num_kv_heads);
  }
  int64_t plan(const op::plan& a, void* blob, int64_t) {
    return plan_attention(fk::host<int32_t>(a.cu_seqlens), a.seq_lens->shape[0], init.num_heads / init.num_kv_heads, blob);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t requests = a.seq_lens->shape[0];
    if (!a.q->shape[0] || !requests) return;
    AttentionParams p{};
    p.q = a.q->data, p.out = a.out->data;
    p.q_token = a.q->strides[0], p.q_head = a.q->strides[1], p.out_token = a.out->strides[0], p.out_head = a.out->strides[1];
    p.k = cache_of(a.k_cache), p.v = cache_of(a.v_cache);
    p.tables = fk::data<int32_t>(a.block_tables), p.starts = fk::data<int32_t>(a.cu_seqlens), p.lengths = fk::data<int32_t>(a.seq_lens);
    p.sinks = fk::data<float>(weights.sinks);
    p.width = int(a.block_tables->shape[1]), p.page_size = int(init.page_size), p.heads = int(init.num_heads);
    p.group = int(init.num_heads / init.num_kv_heads), p.window = int(init.window), p.causal = int(init.causal);
    p.scale = float(init.scale), p.softcap = float(init.softcap);
    dispatch(a.q, [&](auto type) { attend<decltype(type)>(p, requests, init.num_kv_heads, init.head_dim, a.max_query_len, a.max_seq_len, ctx); });
  }
};
FK_OP(paged_attention, PagedAttention);

}  // namespace
