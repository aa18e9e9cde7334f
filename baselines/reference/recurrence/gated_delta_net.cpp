// SPDX-License-Identifier: Apache-2.0
// gated_delta_net: projections, convolution over the last tokens, the recurrence of
// matrix_state.hpp, and the gated norm of every head. It goes token by token through each request,
// without rounding between the steps.
#include "fk/ops/gated_delta_net.h"
#include "matrix_state.hpp"

namespace fk::reference {
namespace {

struct GatedDeltaNet : Base<gated_delta_net> {
  using Base::Base;
  static int64_t mixed_width(const op::init& i) {
    return 2 * i.num_k_heads * i.head_dim + i.num_heads * i.v_head_dim;
  }
  struct Rows {
    ConvWindow window;
    double *x, *mixed, *low, *decay, *beta, *gate, *state, *a, *b, *k, *one, *seen, *y, *out, *row;
    Rows(Scratch& s, const op::init& i)
        : window(s, i.kernel_size, mixed_width(i)),
          x(s.take(i.hidden_size)),
          mixed(s.take(mixed_width(i))),
          low(s.take(i.low_rank_dim)),
          decay(s.take(i.num_heads * i.gate_dim)),
          beta(s.take(i.num_heads)),
          gate(s.take(i.num_heads * i.v_head_dim)),
          state(s.take(i.num_heads * i.head_dim * i.v_head_dim)),
          a(s.take(i.head_dim)),
          b(s.take(i.head_dim)),
          k(s.take(i.head_dim)),
          one(s.take(i.head_dim)),
          seen(s.take(i.v_head_dim)),
          y(s.take(i.num_heads * i.v_head_dim)),
          out(s.take(i.hidden_size)),
          row(s.take(i.v_head_dim)) {}
  };
  static void supports(const op::init& init, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    need_floats(w.qkv, w.conv, w.decay_down.or_null, w.decay, w.beta, w.dt_bias,
                w.gate_down.or_null, w.gate, w.norm, w.out_proj, max.x, max.conv_state,
                max.recurrent_state, max.out);
    if (init.num_heads % init.num_k_heads)
      throw unsupported{"num_heads is not a multiple of num_k_heads"};
    if (init.gate_dim != 1 && init.gate_dim != init.head_dim)
      throw unsupported{"gate_dim is neither 1 nor head_dim"};
    if ((init.low_rank_dim > 0) != (w.decay_down.or_null != nullptr))
      throw unsupported{"low_rank_dim and the group low_rank do not agree"};
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    Rows rows(scratch, init);
    const int64_t head = init.head_dim * init.v_head_dim;
    const fk_in* has_state = args.has_initial_state.or_null;
    for (int64_t b = 0; b < args.state_slots->shape[0]; ++b) {
      const int64_t first = index<int32_t>(args.cu_seqlens, b);
      const int64_t last = index<int32_t>(args.cu_seqlens, b + 1);
      if (first == last) continue;
      const int64_t slot = index<int32_t>(args.state_slots, b);
      const int64_t from = !has_state || index<int32_t>(has_state, b) ? slot : -1;
      rows.window.load_state(args.conv_state, from);
      for (int64_t h = 0; h < init.num_heads; ++h)
        load_head(args.recurrent_state, from, h, rows.state + h * head);
      for (int64_t t = first; t < last; ++t) {
        load(args.x, offset(args.x, t), init.hidden_size, rows.x);
        token(rows);
        store(args.out, offset(args.out, t), init.hidden_size, rows.out);
      }
      rows.window.store_state(args.conv_state, slot);
      for (int64_t h = 0; h < init.num_heads; ++h)
        store_head(args.recurrent_state, slot, h, rows.state + h * head);
    }
  }

 private:
  // to[count] = weight @ x, or weight @ down @ x.
  void product(const fk_in* weight, const fk_in* down_or_null, int64_t count, const Rows& rows,
               double* to) const {
    if (!down_or_null)
      return matrix_vector(weight, 0, count, init.hidden_size, nullptr, rows.x, to);
    matrix_vector(down_or_null, 0, init.low_rank_dim, init.hidden_size, nullptr, rows.x, rows.low);
    matrix_vector(weight, 0, count, init.low_rank_dim, nullptr, rows.low, to);
  }

  void token(Rows& rows) const {
    const int64_t keys = init.num_k_heads * init.head_dim,
                  values = init.num_heads * init.v_head_dim;
    matrix_vector(weights.qkv, 0, mixed_width(init), init.hidden_size, nullptr, rows.x,
                  rows.window.next());
    rows.window.convolve(weights.conv, nullptr, true, rows.mixed);
    for (int64_t g = 0; g < 2 * init.num_k_heads; ++g)
      l2_normalize(rows.mixed + g * init.head_dim, init.head_dim, 1e-6);
    product(weights.decay, weights.decay_down.or_null, init.num_heads * init.gate_dim, rows,
            rows.decay);
    add_scaled(weights.dt_bias, 0, init.num_heads * init.gate_dim, 1, rows.decay);
    matrix_vector(weights.beta, 0, init.num_heads, init.hidden_size, nullptr, rows.x, rows.beta);
    product(weights.gate, weights.gate_down.or_null, values, rows, rows.gate);
    for (int64_t h = 0; h < init.num_heads; ++h) {
      const int64_t key = h / (init.num_heads / init.num_k_heads);
      const double* q = rows.mixed + key * init.head_dim;
      double* y = rows.y + h * init.v_head_dim;
      step(h, q, q + keys, rows)
          .advance(rows.state + h * init.head_dim * init.v_head_dim, rows.seen, y);
      gated_rms_normalize(y, rows.gate + h * init.v_head_dim, init.v_head_dim, init.v_head_dim,
                          init.eps, true, weights.norm, rows.row,
                          init.gate_activation == FK_GATED_DELTA_NET_GATE_ACTIVATION_SIGMOID);
    }
    matrix_vector(weights.out_proj, 0, init.hidden_size, values, nullptr, rows.y, rows.out);
  }

  // The step of a head, as DeltaHeads has it.
  MatrixStep step(int64_t h, const double* q, const double* k, const Rows& rows) const {
    const StepSize step_size;
    const double beta = 1 / (1 + std::exp(-rows.beta[h])), rate = value(data<float>(weights.a)[h]);
    for (int64_t d = 0; d < init.head_dim; ++d) {
      const double x = rows.decay[h * init.gate_dim + (init.gate_dim == 1 ? 0 : d)];
      rows.one[d] = std::exp(rate * step_size(x));
      rows.a[d] = k[d] * rows.one[d];
      rows.k[d] = beta * k[d];
      rows.b[d] = -rows.k[d];
    }
    const double* v = rows.mixed + 2 * init.num_k_heads * init.head_dim + h * init.v_head_dim;
    return {init.head_dim, init.v_head_dim, init.scale, rows.one, q, rows.k, v, rows.a, rows.b};
  }
};
FK_OP(gated_delta_net, GatedDeltaNet);

}  // namespace
}  // namespace fk::reference
