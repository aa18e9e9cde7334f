// SPDX-License-Identifier: Apache-2.0
// gated_linear_attention, gated_delta_rule, dplr_recurrence, and the forms of each with one token.
#include <type_traits>
#include <utility>

#include "fk/ops/dplr_recurrence.h"
#include "fk/ops/dplr_recurrence_update.h"
#include "fk/ops/gated_delta_rule.h"
#include "fk/ops/gated_delta_rule_update.h"
#include "fk/ops/gated_linear_attention.h"
#include "fk/ops/gated_linear_attention_update.h"
#include "gated_chunks.cuh"
#include "matrix_chunks.cuh"
#include "matrix_step.cuh"

namespace {
using namespace fkc;

template <class Init, class Forward>
void need_matrix(const Init& init, const Forward& max, const fk_in* q) {
  const fk_in* const state = fk_as_in(max.recurrent_state);
  need_16bit(q);
  need(init.head_dim <= 64    ? init.head_dim % 4 == 0
       : init.head_dim <= 128 ? init.head_dim % 8 == 0
                              : init.head_dim % 16 == 0 && init.head_dim <= 256,
       "head_dim: a multiple of 4 up to 64, of 8 up to 128, or of 16 up to 256");
  need(init.v_head_dim % 4 == 0, "v_head_dim: a multiple of 4 only");
  need(init.v_head_dim <= int64_t{65535} * kStepColumns, "v_head_dim: fewer");
  need(FK_DTYPE(state) == FK_F32 || FK_DTYPE(state) == FK_DTYPE(q),
       "recurrent_state: the dtype of the queries or float32 only");
  need(in_fours(state), "recurrent_state: rows must start at multiples of four elements");
  need(max.state_slots->shape[0] * init.num_heads < int64_t{1} << 31,
       "requests: fewer for so many heads");
}
void need_not_double(const fk_in* view) {
  need(!view || FK_DTYPE(view) != FK_F64, "decays and beta: float32, float16 and bfloat16 only");
}
Decays decays_of(const fk_in* view) {
  if (!view) return {};
  return {view->data,     FK_DTYPE(view), int(view->shape[2]), view->strides[0], view->strides[1],
          in_fours(view), nullptr};
}

template <class Forward, class = void>
constexpr bool kHasSequences = false;
template <class Forward>
constexpr bool kHasSequences<Forward, std::void_t<decltype(std::declval<Forward>().cu_seqlens)>> =
    true;

template <class Kernel, class... A>
void launch_with(Kernel kernel, dim3 grid, int threads, int bytes, const fk_ctx& ctx, A... a) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
        "shared memory");
  launch(kernel, grid, threads, size_t(bytes), ctx, a...);
}
template <int kPieces, class T, class S>
void run_gated(const MatrixState<T, S>& s, int64_t requests, int64_t longest, const fk_ctx& ctx) {
  auto* const pairs = static_cast<float*>(ctx.scratch);
  const unsigned heads = unsigned(requests * s.heads);
  const unsigned chunks =
      unsigned(std::min<int64_t>(std::max<int64_t>(1, cdiv(longest, gated::kTokens)), 65535));
  launch_with(gated::gated_pairs<T, S, kPieces>, dim3(heads, chunks), gated::kPairThreads,
              gated::PairPlaces<kPieces>::kBytes, ctx, s, pairs);
  launch_with(gated::scan_gated<T, S, kPieces>,
              dim3(heads, unsigned(cdiv(s.values, gated::kColumns))), gated::kThreads,
              gated::GatedScan<T, S, kPieces>::kBytes, ctx, s, static_cast<const float*>(pairs));
}
template <Form kForm, int kPieces, class T, class S>
void run_chunks(const MatrixState<T, S>& s, int64_t requests, const fk_ctx& ctx) {
  launch_with(scan_matrix<T, S, kForm, kPieces>,
              dim3(unsigned(requests * s.heads), unsigned(cdiv(s.values, kChunkColumns))),
              2 * kChunkSide, ChunkPlaces<kForm, kPieces>::kBytes, ctx, s);
}

// The kernel does not depend on the number of tokens, so that a row has the same bits in any batch.
// The widest keys of the low-rank form exceed shared memory. longest: tokens of a request.
template <Form kForm, class T, class S>
void run(const MatrixState<T, S>& s, int64_t requests, int64_t longest, const fk_ctx& ctx) {
  if (s.starts) {
    const auto by_chunks = [&](auto pieces) {
      if constexpr (kForm == Form::gated)
        return run_gated<decltype(pieces)::value>(s, requests, longest, ctx);
      else
        return run_chunks<kForm, decltype(pieces)::value>(s, requests, ctx);
    };
    if (s.width <= 64) return by_chunks(std::integral_constant<int, 1>{});
    if (s.width <= 128) return by_chunks(std::integral_constant<int, 2>{});
    if constexpr (kForm != Form::low_rank) return by_chunks(std::integral_constant<int, 4>{});
  }
  const dim3 grid(unsigned(requests * s.heads), unsigned(cdiv(s.values, kStepColumns)));
  if (s.width <= 64) return launch(step_matrix<T, S, kForm, 4, 128>, grid, 128, 0, ctx, s);
  if (s.width <= 128) return launch(step_matrix<T, S, kForm, 4, 256>, grid, 256, 0, ctx, s);
  launch(step_matrix<T, S, kForm, 16, 128>, grid, 128, 0, ctx, s);
}
// fill(s) adds the arguments which the forms do not share.
template <Form kForm, class Init, class Forward, class Fill>
void run(const Init& init, const Forward& a, const fk_in* q, const fk_ctx& ctx, Fill fill) {
  const int64_t requests = a.state_slots->shape[0];
  if (!requests) return;
  dispatch(q, [&](auto type) {
    using T = decltype(type);
    const auto go = [&](auto* state) {
      MatrixState<T, std::remove_pointer_t<decltype(state)>> s{};
      s.q = head_vectors<T>(q), s.k = head_vectors<T>(a.k), s.v = head_vectors<T>(a.v);
      s.state = state, s.out = fk::data<T>(a.out), s.slots = fk::data<int32_t>(a.state_slots);
      if constexpr (kHasSequences<Forward>) {
        s.starts = fk::data<int32_t>(a.cu_seqlens);
        s.has_state = fk::data<int32_t>(a.has_initial_state);
      }
      const fk_in* const view = fk_as_in(a.recurrent_state);
      s.slot = view->strides[0], s.state_head = view->strides[1], s.state_row = view->strides[2];
      s.heads = int(init.num_heads), s.width = int(init.head_dim);
      s.values = int(init.v_head_dim), s.group = 1, s.scale = float(init.scale);
      fill(s, type);
      int64_t longest = 1;
      if constexpr (kHasSequences<Forward>) longest = a.max_query_len;
      run<kForm>(s, requests, longest, ctx);
    };
    if (FK_DTYPE(a.recurrent_state) == FK_F32)
      go(fk::data<float>(a.recurrent_state));
    else
      go(fk::data<T>(a.recurrent_state));
  });
}

template <class Op>
struct Gated : Base<Op> {
  using Base<Op>::Base;
  static void supports(const typename Op::init& init, const typename Op::weights&,
                       const typename Op::forward& max, fk_need& wanted) {
    need_matrix(init, max, max.q);
    need_not_double(max.g.or_null);
    if (kHasSequences<typename Op::forward>)  // the pairs of gated_chunks.cuh
      wanted.scratch = max.q->shape[0] * init.num_heads * gated::kTokens * 4;
  }
  void forward(const typename Op::forward& a, const fk_ctx& ctx) {
    run<Form::gated>(this->init, a, a.q, ctx, [&](auto& s, auto) {
      s.decays = decays_of(a.g.or_null);
      s.decays.fixed = fk::data<float>(this->weights.decay);
    });
  }
};
template <class Op>
struct Delta : Base<Op> {
  using Base<Op>::Base;
  static void supports(const typename Op::init& init, const typename Op::weights&,
                       const typename Op::forward& max, fk_need&) {
    need_matrix(init, max, max.q);
    need_not_double(max.g);
    need(init.num_heads % init.num_k_heads == 0, "num_heads is not a multiple of num_k_heads");
    need(init.gate_dim == 1 || init.gate_dim == init.head_dim,
         "gate_dim is neither 1 nor head_dim");
    need_not_double(max.beta);
  }
  void forward(const typename Op::forward& a, const fk_ctx& ctx) {
    const auto& init = this->init;
    run<Form::delta>(init, a, a.q, ctx, [&](auto& s, auto) {
      s.decays = decays_of(a.g);
      s.beta = {a.beta->data, FK_DTYPE(a.beta)};
      s.beta_token = a.beta->strides[0], s.beta_head = a.beta->strides[1];
      s.group = int(init.num_heads / init.num_k_heads);
      s.normalize = int(init.qk_l2_norm), s.eps = float(init.norm_eps);
    });
  }
};
template <class Op>
struct LowRank : Base<Op> {
  using Base<Op>::Base;
  static void supports(const typename Op::init& init, const typename Op::weights&,
                       const typename Op::forward& max, fk_need&) {
    need_matrix(init, max, max.r);
    need_not_double(max.w);
  }
  void forward(const typename Op::forward& a, const fk_ctx& ctx) {
    run<Form::low_rank>(this->init, a, a.r, ctx, [&](auto& s, auto type) {
      using T = decltype(type);
      s.decays = decays_of(a.w);
      s.a = head_vectors<T>(a.a), s.b = head_vectors<T>(a.b);
    });
  }
};
using GatedLinearAttention = Gated<fk::gated_linear_attention>;
using GatedLinearAttentionUpdate = Gated<fk::gated_linear_attention_update>;
using GatedDeltaRule = Delta<fk::gated_delta_rule>;
using GatedDeltaRuleUpdate = Delta<fk::gated_delta_rule_update>;
using DplrRecurrence = LowRank<fk::dplr_recurrence>;
using DplrRecurrenceUpdate = LowRank<fk::dplr_recurrence_update>;
FK_OP(gated_linear_attention, GatedLinearAttention);
FK_OP(gated_linear_attention_update, GatedLinearAttentionUpdate);
FK_OP(gated_delta_rule, GatedDeltaRule);
FK_OP(gated_delta_rule_update, GatedDeltaRuleUpdate);
FK_OP(dplr_recurrence, DplrRecurrence);
FK_OP(dplr_recurrence_update, DplrRecurrenceUpdate);

}  // namespace
