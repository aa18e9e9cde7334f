// SPDX-License-Identifier: Apache-2.0
// paged_attention on tensor cores: flash_decoding.cuh for few query rows, flash_attention3.cuh for
// many. If rows are very many, pages are copied first (gathered_pages.cuh). flash_attention2.cuh
// takes the cases which flash_attention3.cuh refuses, and heads of other widths than 64 and 128.
#define FK_PAGED_ATTENTION_EDITION 2
#include "../parts/op.cuh"
#include "fk/ops/paged_attention.h"
#include "gathered_pages.cuh"
#include "paged.cuh"

namespace {
using namespace fkc;

struct PagedAttention : Base<fk::paged_attention> {
  using Base::Base;
  // The split of a context depends on the batch. With several tokens per request the grid is as
  // large as the list of plan(), so graphs capture only decode.
  static constexpr fk_claims claims = claims_of(FK_GRAPH_UNIFORM_DECODE, 0);
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need& wanted) {
    need_16bit(max.q);
    need(FK_DTYPE(max.k_cache) == FK_DTYPE(max.q), "k_cache: the dtype of q only");
    need(init.head_dim % 8 == 0 && init.head_dim <= 256, "head_dim: a multiple of 8 up to 256");
    need(init.num_kv_heads < 65536, "num_kv_heads: below 65536");
    need(init.causal || !init.window, "window: none where attention is not causal");
    need_aligned(max.q);
    need_aligned(max.k_cache);
    need_aligned(max.v_cache);
    need_aligned(fk_as_in(max.out));
    const int64_t tokens = max.q->shape[0], requests = max.seq_lens->shape[0];
    if (!in_tiles(init)) {
      wanted.plan = attention_plan_bytes(tokens, requests, group_of(init));
      return;
    }
    const tiles::Heads heads = heads_of(init);
    wanted.plan = tiles::plan_bytes(tokens, requests, heads);
    if (init.window) return;
    wanted.scratch = tiles::gathered_bytes(tokens, requests * max.block_tables->shape[1] * init.page_size, init.num_kv_heads, heads);
    if (wanted.scratch) wanted.plan += tiles::starts_bytes(requests);
  }
  // Empty if every request has few rows.
  int64_t plan(const op::plan& a, void* blob, int64_t) {
    const int64_t requests = a.seq_lens->shape[0], group = group_of(init);
    const auto *starts = fk::host<int32_t>(a.cu_seqlens), *lengths = fk::host<int32_t>(a.seq_lens);
    int64_t longest = 0;
    for (int64_t r = 0; r < requests; ++r) longest = std::max<int64_t>(longest, starts[r + 1] - starts[r]);
    if (has_decode(init.head_dim) && is_few(group, longest)) return 0;
    if (!in_tiles(init)) return plan_attention(starts, requests, group, blob);
    const auto request_of = [&](int64_t r) { return tiles::Request{starts[r], starts[r + 1] - starts[r], lengths[r], r}; };
    if (!init.window && tiles::gathers(requests, init.num_kv_heads, heads_of(init), request_of))
      return tiles::plan_gathered(requests, heads_of(init), request_of, init.causal, blob);
    return tiles::plan(requests, heads_of(init), init.window, init.causal, request_of, blob);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t requests = a.seq_lens->shape[0], group = group_of(init);
    if (!a.q->shape[0] || !requests) return;
    if (ctx.plan_bytes && in_tiles(init)) return attend_in_tiles(a, ctx);
    AttentionParams p{};
    p.q = a.q->data, p.out = a.out->data;
    p.q_token = a.q->strides[0], p.q_head = a.q->strides[1], p.out_token = a.out->strides[0], p.out_head = a.out->strides[1];
    p.k = cache_of(a.k_cache), p.v = cache_of(a.v_cache);
    p.tables = fk::data<int32_t>(a.block_tables), p.starts = fk::data<int32_t>(a.cu_seqlens), p.lengths = fk::data<int32_t>(a.seq_lens);
    p.sinks = fk::data<float>(weights.sinks);
    p.width = int(a.block_tables->shape[1]), p.page_size = int(init.page_size), p.heads = int(init.num_heads);
    p.group = int(group), p.window = int(init.window), p.causal = int(init.causal);
    p.scale = float(init.scale), p.softcap = float(init.softcap);
    dispatch(a.q, [&](auto type) {
      using T = decltype(type);
      if (ctx.plan_bytes) attend_rows<T>(p, init.num_kv_heads, init.head_dim, ctx);
      else attend<T>(p, requests, init.num_kv_heads, init.head_dim, std::min(a.max_query_len, most_few(group)), a.max_seq_len, ctx);
    });
  }

 private:
  static int64_t group_of(const op::init& init) { return init.num_heads / init.num_kv_heads; }
  static tiles::Heads heads_of(const op::init& init) { return {init.num_heads, init.num_kv_heads, init.head_dim}; }
  static bool in_tiles(const op::init& init) { return has_decode(init.head_dim) && init.scale > 0 && init.softcap == 0 && shift_of(init.page_size) >= 0; }
  void attend_in_tiles(const op::forward& a, const fk_ctx& ctx) const {
    tiles::Arguments p{};
    p.k = cache_of(a.k_cache), p.v = cache_of(a.v_cache), p.tables = fk::data<int32_t>(a.block_tables);
    p.width = int(a.block_tables->shape[1]), p.page_shift = shift_of(init.page_size);
    p.sinks = fk::data<float>(weights.sinks), p.out = a.out->data, p.out_token = a.out->strides[0], p.out_head = a.out->strides[1];
    p.window = int(init.window), p.causal = int(init.causal), p.scale = float(init.scale) * kLog2e;
    dispatch(a.q, [&](auto type) {
      using T = decltype(type);
      if (tiles::is_gathered(ctx.plan_bytes)) tiles::attend_gathered<T>(p, heads_of(init), a.seq_lens->shape[0], a.q, a.k_cache, a.v_cache, ctx);
      else tiles::attend<T>(p, heads_of(init), a.q, a.k_cache, a.v_cache, ctx);
    });
  }
};
FK_OP(paged_attention, PagedAttention);

}  // namespace
