// SPDX-License-Identifier: Apache-2.0
// Ops of a decoder that do nothing: what is left is the host's own time.
#include "fk/ops/embedding.h"
#include "fk/ops/gather_rows.h"
#include "fk/ops/kv_cache_append.h"
#include "fk/ops/linear.h"
#define FK_PAGED_ATTENTION_EDITION 2
#include "fk/ops/paged_attention.h"
#include "fk/ops/rms_norm.h"
#include "fk/ops/rotary_embedding.h"
#include "fk/ops/sample_tokens.h"
#include "fk/ops/silu_and_mul.h"

namespace {
template <class Op>
struct Null {
  using op = Op;
  static constexpr fk_claims claims = fk::cpu_claims;
  int64_t calls = 0;
  static void supports(const typename Op::init&, const typename Op::weights&,
                       const typename Op::forward&, fk_need&) {}
  Null(const fk_host&, const typename Op::init&, const typename Op::weights&) {}
  void prepare(const typename Op::forward&, const fk_memory&) {}
  void forward(const typename Op::forward&, const fk_ctx&) { ++calls; }
};
#define FK_NULL(OP, CLASS)      \
  struct CLASS : Null<fk::OP> { \
    using Null::Null;           \
  };                            \
  FK_OP(OP, CLASS)
FK_NULL(embedding, Embedding);
FK_NULL(gather_rows, GatherRows);
FK_NULL(kv_cache_append, KvCacheAppend);
FK_NULL(linear, Linear);
FK_NULL(paged_attention, PagedAttention);
FK_NULL(rms_norm, RmsNorm);
FK_NULL(rotary_embedding, RotaryEmbedding);
FK_NULL(sample_tokens, SampleTokens);
FK_NULL(silu_and_mul, SiluAndMul);
}  // namespace
FK_PLUGIN("null", "0");
