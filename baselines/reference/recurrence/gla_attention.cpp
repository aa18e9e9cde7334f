// SPDX-License-Identifier: Apache-2.0
// gla_attention: projections, the recurrence of matrix_state.hpp, the norm of every head and its
// gate, token by token for each request, without rounding between the steps.
#include "fk/ops/gla_attention.h"
#include "matrix_state.hpp"

namespace fk::reference {
namespace {

struct GlaAttention : Base<gla_attention> {
  using Base::Base;
  struct Rows {
    double *x, *qkv, *gate, *low, *decay, *state, *seen, *y, *out, *row;
    Rows(Scratch& s, const op::init& i)
        : x(s.take(i.hidden_size)),
          qkv(s.take(i.num_heads * (2 * i.head_dim + i.v_head_dim))),
          gate(s.take(i.num_heads * i.v_head_dim)),
          low(s.take(i.gate_low_rank_dim)),
          decay(s.take(i.num_heads * i.head_dim)),
          state(s.take(i.num_heads * i.head_dim * i.v_head_dim)),
          seen(s.take(i.v_head_dim)),
          y(s.take(i.num_heads * i.v_head_dim)),
          out(s.take(i.hidden_size)),
          row(s.take(i.v_head_dim)) {}
  };
  static void supports(const op::init& init, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    need_floats(w.qkv, w.gate, w.gk_a.or_null, w.gk_b.or_null, w.gk_bias.or_null, w.norm, w.o,
                max.x, max.recurrent_state, max.out);
    if (w.cos_sin_cache.or_null && init.head_dim % 2)
      throw unsupported{"an odd head_dim has no rotation"};
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init);
    const int64_t head = init.head_dim * init.v_head_dim;
    const fk_in* has_state = args.has_initial_state.or_null;
    for (int64_t b = 0; b < args.state_slots->shape[0]; ++b) {
      const int64_t first = index<int32_t>(args.cu_seqlens, b);
      const int64_t last = index<int32_t>(args.cu_seqlens, b + 1);
      if (first == last) continue;
      const int64_t slot = index<int32_t>(args.state_slots, b);
      const int64_t from = !has_state || index<int32_t>(has_state, b) ? slot : -1;
      for (int64_t h = 0; h < init.num_heads; ++h)
        load_head(args.recurrent_state, from, h, rows.state + h * head);
      for (int64_t t = first; t < last; ++t) token(args, t, rows);
      for (int64_t h = 0; h < init.num_heads; ++h)
        store_head(args.recurrent_state, slot, h, rows.state + h * head);
    }
  }

 private:
  void token(const op::forward& args, int64_t t, const Rows& rows) const {
    const int64_t keys = init.num_heads * init.head_dim, values = init.num_heads * init.v_head_dim;
    load(args.x, offset(args.x, t), init.hidden_size, rows.x);
    matrix_vector(weights.qkv, 0, 2 * keys + values, init.hidden_size, nullptr, rows.x, rows.qkv);
    matrix_vector(weights.gate, 0, values, init.hidden_size, nullptr, rows.x, rows.gate);
    decays(rows);
    if (const fk_in* table = weights.cos_sin_cache.or_null) {
      const int64_t position = index<int64_t>(args.positions.or_null, t);
      for (int64_t h = 0; h < 2 * init.num_heads; ++h)
        rotate(rows.qkv + h * init.head_dim, init.head_dim, false,
               data<float>(table) + position * init.head_dim);
    }
    for (int64_t h = 0; h < init.num_heads; ++h) {
      const double* q = rows.qkv + h * init.head_dim;
      double* y = rows.y + h * init.v_head_dim;
      const MatrixStep step{init.head_dim,
                            init.v_head_dim,
                            init.scale,
                            rows.decay + h * init.head_dim,
                            q,
                            q + keys,
                            rows.qkv + 2 * keys + h * init.v_head_dim,
                            nullptr,
                            nullptr};
      step.advance(rows.state + h * init.head_dim * init.v_head_dim, rows.seen, y);
      gated_rms_normalize(y, rows.gate + h * init.v_head_dim, init.v_head_dim, init.v_head_dim,
                          init.eps, true, weights.norm, rows.row);
    }
    matrix_vector(weights.o, 0, init.hidden_size, values, nullptr, rows.y, rows.out);
    store(args.out, offset(args.out, t), init.hidden_size, rows.out);
  }

  void decays(const Rows& rows) const {
    const int64_t keys = init.num_heads * init.head_dim;
    std::fill_n(rows.decay, keys, 0.0);
    if (const fk_in* gk_a = weights.gk_a.or_null) {
      matrix_vector(gk_a, 0, init.gate_low_rank_dim, init.hidden_size, nullptr, rows.x, rows.low);
      matrix_vector(weights.gk_b.or_null, 0, keys, init.gate_low_rank_dim, weights.gk_bias.or_null,
                    rows.low, rows.decay);
      for (int64_t i = 0; i < keys; ++i)
        rows.decay[i] = log_sigmoid(rows.decay[i]) / init.gate_logit_normalizer;
    }
    for (int64_t i = 0; i < keys; ++i)
      rows.decay[i] =
          std::exp(rows.decay[i] + element_or(weights.decay.or_null, i / init.head_dim, 0));
  }
};
FK_OP(gla_attention, GlaAttention);

}  // namespace
}  // namespace fk::reference
