// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts: the choice of experts, and whole mixtures. For up to 16 tokens, two streamed
// products read the weights of the chosen experts; for more, grouped GEMMs on wgmma do.
#define FK_FUSED_MOE_EDITION 2
#include "../gemm/streamed_gemv.cuh"
#include "../parts/op.cuh"
#include "fk/ops/fused_moe.h"
#define FK_TOPK_SOFTMAX_EDITION 1
#include "fk/ops/topk_softmax.h"
#include "grouped_experts.cuh"

namespace {
using namespace fkc;
using gemv::Mode;

// One warp per token. Every lane has up to eight experts.
template <class T> __global__ void topk_softmax(const T* logits, float* weights, int32_t* ids, int tokens, int experts, int top_k, bool renormalize) {
  const int token = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  wait_for_inputs();
  if (token >= tokens) return;
  float values[8], most = -INFINITY;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int expert = i * 32 + lane;
    values[i] = expert < experts ? to_float(logits[int64_t(token) * experts + expert]) : -INFINITY;
    most = fmaxf(most, values[i]);
  }
  most = warp_max(most);
  float total = 0, chosen = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) total += values[i] == -INFINITY ? 0.F : expf(values[i] - most);
  total = warp_sum(total);
  uint32_t taken = 0;  // experts of this lane
  float mine = 0;      // lane k keeps the k-th weight of every 32
  for (int k = 0; k < top_k; ++k) {
    float best = -INFINITY;
    int at = 0x7fffffff;
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (!(taken >> i & 1) && i * 32 + lane < experts && (values[i] > best || at == 0x7fffffff)) best = values[i], at = i * 32 + lane;
    for (int d = 16; d > 0; d /= 2) {
      const float other = __shfl_xor_sync(0xffffffffu, best, d);
      const int other_at = __shfl_xor_sync(0xffffffffu, at, d);
      if (other_at != 0x7fffffff && (at == 0x7fffffff || other > best || (other == best && other_at < at))) best = other, at = other_at;
    }
    if (at % 32 == lane) taken |= 1u << at / 32;
    const float weight = expf(best - most) / total;
    chosen += weight;
    if (lane == 0) ids[int64_t(token) * top_k + k] = at;
    if (lane == k % 32) mine = weight;
    if (!renormalize && lane == k % 32) weights[int64_t(token) * top_k + k] = mine;
  }
  if (renormalize && lane < top_k) weights[int64_t(token) * top_k + lane] = mine / chosen;
}

struct TopkSoftmax : Base<fk::topk_softmax> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward&, fk_need&) {
    need(init.num_experts <= 256, "num_experts: up to 256");
    need(init.top_k <= 32, "top_k: up to 32");
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int tokens = int(a.logits->shape[0]);
    if (!tokens) return;
    const auto run = [&](auto type) {
      using T = decltype(type);
      launch(topk_softmax<T>, unsigned(cdiv(tokens, 4)), 128, 0, ctx, fk::data<T>(a.logits), fk::data<float>(a.topk_weights),
             fk::data<int32_t>(a.topk_ids), tokens, int(init.num_experts), int(init.top_k), init.renormalize != 0);
    };
    if (FK_DTYPE(a.logits) == FK_F32) run(float{});
    else dispatch(a.logits, run);
  }
};

struct FusedMoe : Base<fk::fused_moe> {
  using Base::Base;
  static constexpr fk_claims claims = claims_of(FK_GRAPH_ALWAYS, 0);
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max, fk_need& wanted) {
    need_16bit(max.x);
    need(FK_DTYPE(weights.w13) == FK_DTYPE(max.x), "w13: the dtype of x only");
    need(!weights.w13_bias.or_null, "w13_bias: none");
    need(!weights.w13_scale_inv.or_null, "w13_scale_inv: none");
    need(init.activation == FK_FUSED_MOE_ACTIVATION_SILU, "activation: silu only");
    need(init.intermediate_size % 8 == 0, "intermediate_size: a multiple of 8 only");
    need_aligned(max.x);
    const int64_t tokens = max.x->shape[0];
    if (!few(init, tokens)) need(init.hidden_size % 8 == 0, "hidden_size: a multiple of 8 only");
    if (const char* why = grouped::refusal(tokens * init.top_k, init.num_experts, init.hidden_size, init.intermediate_size)) throw fk::unsupported{why};
    const int64_t many = ManyTokens(init.hidden_size, init.intermediate_size, init.num_experts, init.top_k).bytes(tokens);
    wanted.scratch = few(init, tokens) ? tokens * init.top_k * init.intermediate_size * 2 : many;
  }
  void prepare(const op::forward& max, const fk_memory&) {
    if (few(init, 1)) {
      w13_.prepare(weights.w13, init.num_experts * 2 * init.intermediate_size, init.hidden_size, Mode::gated);
      w2_.prepare(weights.w2, init.num_experts * init.hidden_size, init.intermediate_size, Mode::combined);
    }
    if (few(init, max.x->shape[0])) return;
    many_ = ManyTokens(init.hidden_size, init.intermediate_size, init.num_experts, init.top_k);
    many_.prepare(weights.w13, weights.w2);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int tokens = int(a.x->shape[0]), channels = int(init.hidden_size), hidden = int(init.intermediate_size), top_k = int(init.top_k);
    if (!tokens) return;
    dispatch(a.x, [&](auto type) {
      using T = decltype(type);
      if (!few(init, tokens)) {
        many_.forward<T>(fk::data<T>(a.x), a.x->strides[0], fk::data<int32_t>(a.topk_ids), fk::data<float>(a.topk_weights), fk::data<T>(a.out), tokens, ctx);
        return;
      }
      T* activated = static_cast<T*>(ctx.scratch);
      const int32_t* ids = fk::data<int32_t>(a.topk_ids);
      const float* scales = fk::data<float>(a.topk_weights);
      w13_.multiply<Mode::gated, true>(
          gemv::Arguments<T, T>{fk::data<T>(a.x), a.x->strides[0], nullptr, activated, tokens, tokens, hidden, channels, ids, scales, top_k}, ctx);
      w2_.multiply<Mode::combined, true>(
          gemv::Arguments<T, T>{activated, hidden, nullptr, fk::data<T>(a.out), tokens, tokens * top_k, channels, hidden, ids, scales, top_k}, ctx);
    });
  }

 private:
  // As measured, grouping pays before it is necessary.
  static bool few(const op::init& init, int64_t tokens) {
    return tokens * init.top_k <= 16 && !StreamedWeight::refusal(tokens, tokens, init.hidden_size) && !StreamedWeight::refusal(tokens, tokens * init.top_k, init.intermediate_size);
  }

  StreamedWeight w13_, w2_;
  ManyTokens many_;
};
FK_OP(topk_softmax, TopkSoftmax);
FK_OP(fused_moe, FusedMoe);

}  // namespace
