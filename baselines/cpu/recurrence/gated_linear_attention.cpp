// SPDX-License-Identifier: Apache-2.0
// gated_linear_attention, and the kernel that it shares with the other recurrences of
// matrix_state.hpp.
#include "math.hpp"
#include "matrix_state.hpp"

namespace fk::cpu::FK_CPU_LEVEL {

// Values of one token and head for all columns of the state, in float32. a and b are null
// together.
struct MatrixToken {
  const float *decay, *q, *k, *a, *b;
};

// Row t of a head as float32.
FK_INLINE void widen_head(const void* data, int type, int64_t at, int64_t count, float* to) {
  with_type(type, [&]<class T>() {
    const T* from = static_cast<const T*>(data) + at;
    each_vector(count, [&](int64_t i, auto n) { store(to + i, load(from + i, n), n); });
  });
}

// x = x / sqrt(sum(x^2) + eps)
FK_INLINE void l2_normalize(float* x, int64_t count, float eps) {
  Vf squares{};
  each_vector(count, [&](int64_t i, auto n) {
    const Vf v = load(x + i, n);
    squares += v * v;
  });
  const float scale = 1.f / root(sum(squares) + eps);
  each_vector(count, [&](int64_t i, auto n) { store(x + i, load(x + i, n) * scale, n); });
}

// Loads token t of a head into the five rows of `rows`.
FK_INLINE MatrixToken load_token(const MatrixState& m, int64_t t, int64_t head, float* rows) {
  const int64_t width = m.width, row = (width + 15) / 16 * 16, key = head / m.heads_per_key;
  float *decay = rows, *q = decay + row, *k = q + row, *a = k + row, *b = a + row;
  widen_head(m.q, m.type, t * m.q_token + key * m.q_head, width, q);
  widen_head(m.k, m.type, t * m.k_token + key * m.k_head, width, k);
  if (m.normalize) {
    l2_normalize(q, width, m.eps);
    l2_normalize(k, width, m.eps);
  }
  const float fixed = m.fixed ? m.fixed[head] : 0.f;
  if (m.g) {
    const int64_t at = t * m.g_token + head * m.g_head;
    widen_head(m.g, m.gate_type, at, m.gate_width, decay);
  }
  const float one = m.g ? decay[0] : 0.f;
  const bool each = m.g && m.gate_width > 1;
  each_vector(width, [&](int64_t i, auto n) {
    store(decay + i, exp((each ? load(decay + i, n) : splat(one)) + fixed), n);
    store(q + i, load(q + i, n) * m.scale, n);
  });
  if (m.form == MatrixState::gated) return {decay, q, k, nullptr, nullptr};
  if (m.form == MatrixState::low_rank) {
    widen_head(m.a, m.type, t * m.a_token + head * m.a_head, width, a);
    widen_head(m.b, m.type, t * m.b_token + head * m.b_head, width, b);
    return {decay, q, k, a, b};
  }
  float beta = 0;
  with_type(m.beta_type, [&]<class T>() {
    beta = to_float(static_cast<const T*>(m.beta)[t * m.beta_token + head]);
  });
  each_vector(width, [&](int64_t i, auto n) {
    const Vf key_row = load(k + i, n);
    store(a + i, key_row * load(decay + i, n), n);
    store(k + i, key_row * beta, n);
    store(b + i, key_row * -beta, n);
  });
  return {decay, q, k, a, b};
}

// One token over a tile [width, kStateTile] of the state: v is the tile's part of the value, out
// takes its part of the result.
FK_INLINE void advance_tile(const MatrixToken& token, int64_t width, const float* v, float* tile,
                            float* out) {
  constexpr int kVectors = kStateTile / kLanes;
  Vf value[kVectors], seen[kVectors] = {}, result[kVectors] = {};
  for (int i = 0; i < kVectors; ++i) value[i] = load(v + i * kLanes);
  for (int64_t d = 0; token.a && d < width; ++d) {
    const Vf a = splat(token.a[d]);
    for (int i = 0; i < kVectors; ++i) seen[i] += a * load(tile + d * kStateTile + i * kLanes);
  }
  for (int64_t d = 0; d < width; ++d) {
    float* row = tile + d * kStateTile;
    const Vf decay = splat(token.decay[d]), k = splat(token.k[d]), q = splat(token.q[d]);
    const Vf b = token.a ? splat(token.b[d]) : Vf{};
    for (int i = 0; i < kVectors; ++i) {
      const Vf s = decay * load(row + i * kLanes) + k * value[i] + b * seen[i];
      store(row + i * kLanes, s);
      result[i] += q * s;
    }
  }
  for (int i = 0; i < kVectors; ++i) store(out + i * kLanes, result[i]);
}

template <class T, class S>
void matrix_state_tokens(const MatrixState& m, int64_t first, int64_t last, int64_t slot,
                         bool fresh, int64_t head, int64_t begin, float* scratch) {
  const int64_t row = (m.width + 15) / 16 * 16;
  const int64_t columns = m.values - begin < kStateTile ? m.values - begin : kStateTile;
  float *tile = scratch, *rows = tile + row * kStateTile, *out_row = rows + 5 * row;
  S* state = static_cast<S*>(m.state) + slot * m.state_slot + head * m.state_head + begin;
  for (int64_t d = 0; d < m.width; ++d) {
    for (int64_t i = 0; i < kStateTile; i += kLanes) store(tile + d * kStateTile + i, Vf{});
    if (fresh) continue;
    each_vector(columns, [&](int64_t i, auto n) {
      store(tile + d * kStateTile + i, load(state + d * m.state_row + i, n), n);
    });
  }
  float v[kStateTile] = {};
  for (int64_t t = first; t < last; ++t) {
    widen_head(m.v, m.type, t * m.v_token + head * m.v_head + begin, columns, v);
    advance_tile(load_token(m, t, head, rows), m.width, v, tile, out_row);
    T* out = static_cast<T*>(m.out) + t * m.out_token + head * m.values + begin;
    each_vector(columns, [&](int64_t i, auto n) { store(out + i, load(out_row + i, n), n); });
  }
  for (int64_t d = 0; d < m.width; ++d) {
    each_vector(columns, [&](int64_t i, auto n) {
      store(state + d * m.state_row + i, load(tile + d * kStateTile + i, n), n);
    });
  }
}

void matrix_state_tile(const MatrixState& m, int64_t first, int64_t last, int64_t slot, bool fresh,
                       int64_t head, int64_t begin, float* scratch) {
  with_type(m.type, [&]<class T>() {
    with_type(m.state_type, [&]<class S>() {
      matrix_state_tokens<T, S>(m, first, last, slot, fresh, head, begin, scratch);
    });
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/gated_linear_attention.h"

namespace fk::cpu {

struct GatedLinearAttentionOp : GatedStateOp<fk::gated_linear_attention> {
  using GatedStateOp::GatedStateOp;
};
FK_OP(gated_linear_attention, GatedLinearAttentionOp);

}  // namespace fk::cpu
#endif
