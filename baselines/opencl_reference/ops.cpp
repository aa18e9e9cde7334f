// SPDX-License-Identifier: Apache-2.0
// The provider `opencl_reference`: the ops of Llama and Mixtral in plain OpenCL C with sums in
// double. It shows what a provider for OpenCL devices looks like, and is checked against
// `reference`.
#include <initializer_list>

#include "fk/ops/embedding.h"
#include "fk/ops/gather_rows.h"
#include "fk/ops/kv_cache_append.h"
#include "fk/ops/linear.h"
#include "fk/ops/moe_align.h"
#include "launch.hpp"
#define FK_MOE_GROUPED_GEMM_EDITION 2
#include "fk/ops/moe_grouped_gemm.h"
#include "fk/ops/moe_sum.h"
#define FK_PAGED_ATTENTION_EDITION 3
#include "fk/ops/paged_attention.h"
#include "fk/ops/rms_norm.h"
#include "fk/ops/rotary_embedding.h"
#include "fk/ops/sample_tokens.h"
#include "fk/ops/silu_and_mul.h"
#define FK_TOPK_SOFTMAX_EDITION 1  // no jitter, no scales of experts
#include "fk/ops/topk_softmax.h"
#include "fk/plugin.h"

FK_PLUGIN("opencl_reference", "0.1.0");

namespace {
using namespace fko;

struct Embedding : Plain<fk::embedding> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t width = init.embedding_dim;
    Launch(ctx, "copy_rows")
        .view(a.out)
        .view(weights.table)
        .pointer(a.ids->data)
        .pointer(nullptr)
        .value(width)
        .run(a.out->shape[0] * width);
  }
};
FK_OP(embedding, Embedding);

struct GatherRows : Plain<fk::gather_rows> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    Launch(ctx, "copy_rows")
        .view(a.out)
        .view(a.x)
        .pointer(nullptr)
        .pointer(a.rows->data)
        .value(init.size)
        .run(a.out->shape[0] * init.size);
  }
};
FK_OP(gather_rows, GatherRows);

struct RmsNorm : Plain<fk::rms_norm> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    Launch(ctx, "rms_norm")
        .view(a.out)
        .view(a.x)
        .view(a.residual)
        .view(weights.weight)
        .value(init.hidden_size)
        .value(init.eps)
        .run(a.x->shape[0]);
  }
};
FK_OP(rms_norm, RmsNorm);

struct SiluAndMul : Plain<fk::silu_and_mul> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    Launch(ctx, "silu_and_mul")
        .view(a.out)
        .view(a.x)
        .value(init.size)
        .run(a.out->shape[0] * init.size);
  }
};
FK_OP(silu_and_mul, SiluAndMul);

struct Linear : Plain<fk::linear> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    Launch(ctx, "linear")
        .view(a.out)
        .view(a.x)
        .view(weights.weight)
        .view(weights.bias)
        .value(init.in_features)
        .value(init.out_features)
        .run(a.out->shape[0] * init.out_features);
  }
};
FK_OP(linear, Linear);

struct MoeGroupedGemm : Plain<fk::moe_grouped_gemm> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    Launch(ctx, "moe_grouped_gemm")
        .view(a.out)
        .view(a.x)
        .view(weights.weight)
        .view(weights.bias)
        .pointer(a.row_ids->data)
        .pointer(a.expert_offsets->data)
        .value(init.in_features)
        .value(init.out_features)
        .value(init.num_experts)
        .value(init.top_k)
        .run(a.row_ids->shape[0] * init.out_features);
  }
};
FK_OP(moe_grouped_gemm, MoeGroupedGemm);

struct RotaryEmbedding : Plain<fk::rotary_embedding> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    for (const fk_inout* x : {a.q, a.k})
      Launch(ctx, "rotary_embedding")
          .view(x)
          .view(weights.cos_sin_cache)
          .pointer(a.positions->data)
          .value(x->shape[1])
          .value(init.rotary_dim)
          .value(init.interleaved)
          .run(x->shape[0] * x->shape[1] * (init.rotary_dim / 2));
  }
};
FK_OP(rotary_embedding, RotaryEmbedding);

struct KvCacheAppend : Plain<fk::kv_cache_append> {
  using Plain::Plain;
  void append(const fk_inout* cache, const fk_in* x, const fk_in* slots, const fk_ctx& ctx) {
    Launch(ctx, "kv_cache_append")
        .view(cache)
        .view(x)
        .pointer(slots->data)
        .value(init.num_kv_heads)
        .value(init.head_dim)
        .value(init.page_size)
        .run(x->shape[0] * init.num_kv_heads * init.head_dim);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    append(a.k_cache, a.k, a.slot_mapping, ctx);
    append(a.v_cache, a.v, a.slot_mapping, ctx);
  }
};
FK_OP(kv_cache_append, KvCacheAppend);

struct PagedAttention : Plain<fk::paged_attention> {
  using Plain::Plain;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    if (init.num_heads % init.num_kv_heads)
      throw fk::unsupported{"num_heads is not a multiple of num_kv_heads"};
    need.scratch = max.q->shape[0] * init.num_heads * init.head_dim * 8;
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    Launch(ctx, "paged_attention")
        .view(a.out)
        .view(a.q)
        .view(a.k_cache)
        .view(a.v_cache)
        .view(weights.sinks)
        .view(weights.alibi_slopes)
        .pointer(a.block_tables->data)
        .pointer(a.cu_seqlens->data)
        .pointer(a.seq_lens->data)
        .pointer(ctx.scratch)
        .value(a.block_tables->shape[1])
        .value(a.seq_lens->shape[0])
        .value(init.num_heads)
        .value(init.num_heads / init.num_kv_heads)
        .value(init.head_dim)
        .value(init.page_size)
        .value(init.scale)
        .value(init.softcap)
        .value(init.window)
        .value(init.causal)
        .run(a.q->shape[0] * init.num_heads);
  }
};
FK_OP(paged_attention, PagedAttention);

struct TopkSoftmax : Plain<fk::topk_softmax> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    Launch(ctx, "topk_softmax")
        .view(a.logits)
        .pointer(a.topk_weights->data)
        .pointer(a.topk_ids->data)
        .value(init.num_experts)
        .value(init.top_k)
        .value(init.renormalize)
        .run(a.logits->shape[0]);
  }
};
FK_OP(topk_softmax, TopkSoftmax);

struct MoeAlign : Plain<fk::moe_align> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    Launch(ctx, "moe_align")
        .pointer(a.topk_ids->data)
        .pointer(a.row_ids->data)
        .pointer(a.expert_offsets->data)
        .value(a.topk_ids->shape[0] * a.topk_ids->shape[1])
        .run(init.num_experts + 1);
  }
};
FK_OP(moe_align, MoeAlign);

struct MoeSum : Plain<fk::moe_sum> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    Launch(ctx, "moe_sum")
        .view(a.out)
        .view(a.x)
        .pointer(a.topk_weights->data)
        .value(init.size)
        .value(a.topk_weights->shape[1])
        .run(a.out->shape[0] * init.size);
  }
};
FK_OP(moe_sum, MoeSum);

struct SampleTokens : Plain<fk::sample_tokens> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    Launch(ctx, "sample_tokens")
        .view(a.logits)
        .pointer(a.temperature->data)
        .pointer(a.top_k->data)
        .pointer(a.top_p->data)
        .pointer(a.uniform->data)
        .pointer(a.tokens->data)
        .value(init.vocab_size)
        .run(a.logits->shape[0]);
  }
};
FK_OP(sample_tokens, SampleTokens);

}  // namespace
