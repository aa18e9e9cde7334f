// SPDX-License-Identifier: Apache-2.0
// attention_varlen by FlashInfer's FA3 kernel, for encoders: ragged keys and values without pages.
#define FK_ATTENTION_VARLEN_EDITION 1
#include "fk/ops/attention_varlen.h"
#include "common.hpp"

namespace {
using namespace fkf;

class AttentionVarlen {
 public:
  using op = fk::attention_varlen;
  static constexpr fk_claims claims{
      FK_END(fk_claims, sm), FK_CUDA, FK_GRAPH_ALWAYS, 1, 1, FK_ACCUMULATE_F32, 0, 1, kSm};
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& wanted) {
    need_16bit(max.q);
    need(init.head_dim == 64 || init.head_dim == 128, "head_dim: 64 or 128");
    need(!init.window, "window: none");
    // If a request has more queries than keys, its first queries see no key. The kernel's answer
    // for them is undefined.
    need(!init.causal, "causal: not where a request may have more queries than keys");
    need(init.num_heads < 256, "num_heads: below 256");
    for (const fk_in* view : {max.q, max.k, max.v}) need_aligned(view);
    wanted.plan =
        tiles_bytes(max.q->shape[0], max.cu_seqlens_q->shape[0] - 1, init.num_heads, init.head_dim);
  }
  AttentionVarlen(const fk_host&, const op::init& init, const op::weights&) : init_(init) {}
  void prepare(const op::forward&, const fk_memory&) {
    blocks_ = std::min<int>(block_count(), kBlocksMax);
  }
  int64_t plan(const op::plan& a, void* blob, int64_t) {
    const auto* keys = fk::host<int32_t>(a.cu_seqlens_k);
    return deal_tiles(
        fk::host<int32_t>(a.cu_seqlens_q), a.cu_seqlens_q->shape[0] - 1,
        [&](int64_t r) { return int64_t{keys[r + 1]} - keys[r]; },
        {init_.num_heads, init_.head_dim, init_.causal != 0, 0}, blocks_, blob);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    if (!a.q->shape[0]) return;
    Attention p{};
    p.q = a.q->data, p.out = a.out->data;
    p.q_token = a.q->strides[0], p.q_head = a.q->strides[1];
    p.k = {a.k->data, a.k->shape[0] * a.k->strides[0], a.k->strides[0], a.k->strides[1]};
    p.v = {a.v->data, a.v->shape[0] * a.v->strides[0], a.v->strides[0], a.v->strides[1]};
    p.tokens = a.q->shape[0], p.key_tokens = a.k->shape[0];
    p.q_starts = fk::data<int32_t>(a.cu_seqlens_q), p.k_starts = fk::data<int32_t>(a.cu_seqlens_k);
    p.requests = int(a.cu_seqlens_q->shape[0] - 1);
    p.heads = int(init_.num_heads), p.kv_heads = int(init_.num_kv_heads);
    p.scale = float(init_.scale);
    p.stream = static_cast<cudaStream_t>(ctx.stream);
    dense_for(FK_DTYPE(a.q), init_.head_dim, init_.causal, 0)(p, tiles_at(ctx.plan, blocks_));
  }

 private:
  const op::init& init_;
  int blocks_ = 0;
};
FK_OP(attention_varlen, AttentionVarlen);

}  // namespace
