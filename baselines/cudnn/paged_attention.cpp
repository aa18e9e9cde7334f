// SPDX-License-Identifier: Apache-2.0
// paged_attention by cuDNN: ragged queries, pages as they are.
#include "common.hpp"
#define FK_PAGED_ATTENTION_EDITION 2
#include "fk/ops/paged_attention.h"

namespace {
using namespace fkd;

class PagedAttention {
 public:
  using op = fk::paged_attention;
  // Which kernel runs depends on the number of requests. A graph for a new shape is made in a step that is not captured.
  static constexpr fk_claims claims{FK_END(fk_claims, sm), FK_CUDA, FK_GRAPH_UNIFORM_DECODE, 1, 0, FK_ACCUMULATE_F32, 0, 1, kSm};
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max, fk_need& wanted) {
    need_16bit(max.q);
    need(FK_DTYPE(max.k_cache) == FK_DTYPE(max.q), "k_cache: the dtype of q only");
    need(init.head_dim == 64 || init.head_dim == 128, "head_dim: 64 or 128");
    need(!weights.sinks.or_null, "sinks: none");
    need(init.softcap == 0, "softcap: none");
    need(init.causal || !init.window, "window: none where attention is not causal");
    need(std::has_single_bit(uint64_t(init.page_size)), "page_size: powers of two");
    for (const fk_in* view : {max.q, max.k_cache, max.v_cache}) need_layout(view);
    need_offsets(max.q);
    wanted.scratch = kWorkspace;
    wanted.plan = (3 * max.seq_lens->shape[0] + 2) * 4;
  }
  PagedAttention(const fk_host&, const op::init& init, const op::weights&) : init_(init) {}
  void prepare(const op::forward& max, const fk_memory&) {
    q_token_ = max.q->strides[0];
    make_attention(shape(max));
  }
  int64_t plan(const op::plan& a, void* blob, int64_t) {
    const int64_t requests = a.seq_lens->shape[0];
    const auto* starts = fk::host<int32_t>(a.cu_seqlens);
    auto* end = write_lengths(static_cast<int32_t*>(blob), starts, requests);
    end = write_starts(end, starts, requests, q_token_);
    end = write_starts(end, starts, requests, init_.num_heads * init_.head_dim);
    return (end - static_cast<int32_t*>(blob)) * 4;
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t requests = a.seq_lens->shape[0];
    if (!a.q->shape[0] || !requests) return;
    const auto* blob = static_cast<const int32_t*>(ctx.plan);
    run_attention(shape(a), {a.q->data, a.k_cache->data, a.v_cache->data, a.out->data, fk::data<int32_t>(a.block_tables), blob,
                             fk::data<int32_t>(a.seq_lens), blob + requests, blob + 2 * requests + 1, nullptr, nullptr, ctx.scratch,
                             ctx.scratch_bytes, static_cast<cudaStream_t>(ctx.stream)});
  }

 private:
  Shape shape(const op::forward& a) const {
    const auto *k = a.k_cache->strides, *v = a.v_cache->strides;
    const int64_t queries = std::min(rounded(a.max_query_len), rounded(a.q->shape[0])), width = a.block_tables->shape[1];
    return {FK_DTYPE(a.q) == FK_BF16, init_.causal, init_.window, a.seq_lens->shape[0], init_.num_heads, init_.num_kv_heads, init_.head_dim,
            queries, width * init_.page_size, a.q->strides[0], a.q->strides[1], k[1], k[2], v[1], v[2], a.k_cache->shape[0], init_.page_size,
            width, k[0], v[0], init_.scale};
  }
  const op::init& init_;
  int64_t q_token_ = 0;
};
FK_OP(paged_attention, PagedAttention);

}  // namespace
