// SPDX-License-Identifier: Apache-2.0
// gated_linear_attention, gated_delta_rule, dplr_recurrence and the forms of each with one token: one warp per column of
// a head's state, token by token. The state stays in double, and is rounded once, when a request's tokens are done.
// delta_gate: one thread per decay.
#include <type_traits>
#include <utility>

#include "common.cuh"
#include "fk/ops/delta_gate.h"
#include "fk/ops/dplr_recurrence.h"
#include "fk/ops/dplr_recurrence_update.h"
#include "fk/ops/gated_delta_rule.h"
#include "fk/ops/gated_delta_rule_update.h"
#include "fk/ops/gated_linear_attention.h"
#include "fk/ops/gated_linear_attention_update.h"

namespace {
using namespace fkr;
constexpr int kWarp = 32;
enum class Form { gated, delta, low_rank };

// Sizes and inputs of one of the ops. `starts` and has_state are null where each request has one token and a state. A
// token of a head: state = diag(decay) state + b (a^T state)^T + k v^T, out = scale * q^T state.
struct Recurrence {
  Form form;
  Ref q, k, v, g, beta, a, b, state, out;
  const float* fixed;  // logarithms of decays, per head
  const int32_t *starts, *slots, *has_state;
  int64_t heads, width, values, group, gate_width;  // group: value heads of a key head
  double scale, eps;
  bool normalize;

  __device__ double norm(const Ref& x, int64_t at) const {
    if (!normalize) return 1;
    double squares = 0;
    for (int64_t d = threadIdx.x; d < width; d += kWarp) squares += load(x, at + d) * load(x, at + d);
    return sqrt(block_sum(squares) + eps);
  }
  __device__ double decay(int64_t t, int64_t h, int64_t d) const {
    const double gate = g.data ? load(g, g.at(t, h) + (gate_width == 1 ? 0 : d)) : 0;
    return exp(gate + (fixed ? double(fixed[h]) : 0.0));
  }
  // Column j of head h of request r, by a warp; `column` has room for it.
  __device__ void run(int64_t r, int64_t h, int64_t j, double* column) const {
    const int64_t first = starts ? starts[r] : r, last = starts ? starts[r + 1] : r + 1;
    if (first == last) return;
    const bool fresh = has_state && !has_state[r];
    for (int64_t d = threadIdx.x; d < width; d += kWarp)
      column[d] = fresh ? 0 : load(state, state.at(slots[r], h, d) + j);
    for (int64_t t = first; t < last; ++t) step(t, h, j, column);
    for (int64_t d = threadIdx.x; d < width; d += kWarp) store(state, state.at(slots[r], h, d) + j, column[d]);
  }
  __device__ void step(int64_t t, int64_t h, int64_t j, double* column) const {
    const int64_t key = h / group, q_at = q.at(t, key), k_at = k.at(t, key);
    const double q_norm = norm(q, q_at), k_norm = norm(k, k_at), value = load(v, v.at(t, h) + j);
    double add = value, seen = 0;  // what k is multiplied by
    if (form == Form::delta) {
      for (int64_t d = threadIdx.x; d < width; d += kWarp)
        seen += load(k, k_at + d) / k_norm * decay(t, h, d) * column[d];
      add = load(beta, beta.at(t, h)) * (value - block_sum(seen));
    } else if (form == Form::low_rank) {
      for (int64_t d = threadIdx.x; d < width; d += kWarp) seen += load(a, a.at(t, h) + d) * column[d];
      seen = block_sum(seen);
    }
    double sum = 0;
    for (int64_t d = threadIdx.x; d < width; d += kWarp) {
      column[d] = decay(t, h, d) * column[d] + load(k, k_at + d) / k_norm * add;
      if (form == Form::low_rank) column[d] += load(b, b.at(t, h) + d) * seen;
      sum += load(q, q_at + d) / q_norm * column[d];
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) store(out, out.at(t, h) + j, scale * sum);
  }
};
void run(const Recurrence& all, int64_t requests, const fk_ctx& ctx) {
  for_rows(requests * all.heads * all.values, kWarp, size_t(all.width) * 8, ctx, [=] __device__(int64_t i) {
    all.run(i / all.values / all.heads, i / all.values % all.heads, i % all.values, dynamic_shared());
  });
}
template <class Init>
void need(const Init& init) {
  if (init.head_dim * 8 > kSharedLimit) throw fk::unsupported{"a larger head_dim than shared memory holds"};
}
template <class Forward, class = void>
constexpr bool kHasSequences = false;
template <class Forward>
constexpr bool kHasSequences<Forward, std::void_t<decltype(std::declval<Forward>().cu_seqlens)>> = true;
// The parts that all ops have.
template <class Init, class Forward>
Recurrence common(const Init& init, const Forward& a) {
  Recurrence r{};
  r.k = ref(a.k), r.v = ref(a.v), r.state = ref(a.recurrent_state), r.out = ref(a.out);
  r.slots = fk::data<int32_t>(a.state_slots);
  if constexpr (kHasSequences<Forward>)
    r.starts = fk::data<int32_t>(a.cu_seqlens), r.has_state = fk::data<int32_t>(a.has_initial_state);
  r.heads = init.num_heads, r.width = r.gate_width = init.head_dim, r.values = init.v_head_dim, r.group = 1;
  r.scale = init.scale;
  return r;
}

template <class Op>
struct Gated : Plain<Op> {
  using Plain<Op>::Plain;
  static void supports(const typename Op::init& init, const typename Op::weights&, const typename Op::forward&, fk_need&) { need(init); }
  void forward(const typename Op::forward& a, const fk_ctx& ctx) {
    Recurrence r = common(this->init, a);
    r.form = Form::gated, r.q = ref(a.q), r.g = ref(a.g), r.fixed = fk::data<float>(this->weights.decay);
    run(r, a.state_slots->shape[0], ctx);
  }
};
template <class Op>
struct Delta : Plain<Op> {
  using Plain<Op>::Plain;
  static void supports(const typename Op::init& init, const typename Op::weights&, const typename Op::forward&, fk_need&) {
    need(init);
    if (init.num_heads % init.num_k_heads) throw fk::unsupported{"num_heads is not a multiple of num_k_heads"};
    if (init.gate_dim != 1 && init.gate_dim != init.head_dim) throw fk::unsupported{"gate_dim is neither 1 nor head_dim"};
  }
  void forward(const typename Op::forward& a, const fk_ctx& ctx) {
    const auto& init = this->init;
    Recurrence r = common(init, a);
    r.form = Form::delta, r.q = ref(a.q), r.g = ref(a.g), r.beta = ref(a.beta);
    r.group = init.num_heads / init.num_k_heads, r.gate_width = init.gate_dim;
    r.normalize = init.qk_l2_norm != 0, r.eps = init.norm_eps;
    run(r, a.state_slots->shape[0], ctx);
  }
};
template <class Op>
struct LowRank : Plain<Op> {
  using Plain<Op>::Plain;
  static void supports(const typename Op::init& init, const typename Op::weights&, const typename Op::forward&, fk_need&) { need(init); }
  void forward(const typename Op::forward& a, const fk_ctx& ctx) {
    Recurrence r = common(this->init, a);
    r.form = Form::low_rank, r.q = ref(a.r), r.g = ref(a.w), r.a = ref(a.a), r.b = ref(a.b);
    run(r, a.state_slots->shape[0], ctx);
  }
};
struct DeltaGate : Plain<fk::delta_gate> {
  using Plain::Plain;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const Ref x = ref(args.x), b = ref(args.b), bias = ref(weights.dt_bias), g = ref(args.g), beta = ref(args.beta);
    const float* a = fk::data<float>(weights.a);
    const int64_t heads = init.num_heads, width = init.gate_dim;
    for_each(args.x->shape[0] * heads * width, ctx, [=] __device__(int64_t i) {
      const int64_t t = i / width / heads, h = i / width % heads, d = i % width;
      const double v = load(x, x.at(t, h) + d) + load(bias, h * width + d);
      store(g, i, a[h] * (v < 40 ? log1p(exp(v)) : v));
      if (d == 0) store(beta, t * heads + h, 1 / (1 + exp(-load(b, b.at(t, h)))));
    });
  }
};
FK_OP(delta_gate, DeltaGate);
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
