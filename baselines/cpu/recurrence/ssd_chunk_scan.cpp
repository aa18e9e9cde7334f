// SPDX-License-Identifier: Apache-2.0
// ssd_chunk_scan, and the kernel that it shares with selective_state_update (ssd.hpp).
#include "math.hpp"
#include "ssd.hpp"

namespace fk::cpu::FK_CPU_LEVEL {

// Element `at`, or 0 if data is null.
FK_INLINE float scalar_at(const void* data, int type, int64_t at) {
  float v = 0;
  if (data) with_type(type, [&]<class T>() { v = to_float(static_cast<const T*>(data)[at]); });
  return v;
}

// A token's input of a head: vectors in float32, the decay of the state and the step size.
struct SsdToken {
  const float *x, *b, *c;
  float decay, step;
};

// Rows [d, d + Rows) of the state: to = decay * from + step * x b^T, and y = to c.
template <int Rows, class From, class To>
FK_INLINE void advance_rows(const SsdToken& k, const From* from, int64_t from_row, To* to,
                            int64_t to_row, int64_t size, int64_t d, float* y) {
  Vf sums[Rows] = {}, input[Rows];
  const Vf decay = splat(k.decay);
  for (int r = 0; r < Rows; ++r) input[r] = splat(k.step * k.x[d + r]);
  each_vector(size, [&](int64_t i, auto n) {
    const Vf b = load(k.b + i, n), c = load(k.c + i, n);
    for (int r = 0; r < Rows; ++r) {
      const Vf s = decay * load(from + (d + r) * from_row + i, n) + input[r] * b;
      store(to + (d + r) * to_row + i, s, n);
      sums[r] += s * c;
    }
  });
  for (int r = 0; r < Rows; ++r) y[d + r] = sum(sums[r]);
}

// All rows of the state, four at a time.
template <class From, class To>
FK_INLINE void advance(const SsdToken& k, const From* from, int64_t from_row, To* to,
                       int64_t to_row, int64_t width, int64_t size, float* y) {
  int64_t d = 0;
  for (; d + 4 <= width; d += 4) advance_rows<4>(k, from, from_row, to, to_row, size, d, y);
  for (; d < width; ++d) advance_rows<1>(k, from, from_row, to, to_row, size, d, y);
}

// The tokens of one head. The first reads the state in place, the last writes it there; between
// tokens it is in scratch.
template <class T, class S>
void ssd_tokens(const Ssd& a, int64_t first, int64_t last, int64_t slot, bool fresh, int64_t head,
                float* scratch) {
  const int64_t width = a.width, size = a.state_size, group = head / a.heads_per_group;
  const auto room = [](int64_t floats) { return (floats + 15) / 16 * 16; };
  float* work = scratch;  // the state between two tokens, dense [width, size]
  float *b = work + room(width * size), *c = b + room(size), *x = c + room(size);
  float* y = x + room(width);
  S* state = static_cast<S*>(a.state) + slot * a.state_slot + head * a.state_head;
  const float rate = a.a[head], skip = scalar_at(a.skip, a.skip_type, head);
  const float bias = scalar_at(a.dt_bias, a.dt_bias_type, head);
  if (fresh) each_vector(width * size, [&](int64_t i, auto n) { store(work + i, Vf{}, n); });
  const auto widen_row = [](const T* from, int64_t count, float* to) {
    each_vector(count, [&](int64_t i, auto n) { store(to + i, load(from + i, n), n); });
  };
  for (int64_t t = first; t < last; ++t) {
    float step = to_float(static_cast<const T*>(a.dt)[t * a.dt_token + head]) + bias;
    // from 20 on softplus(step) is step in float32
    if (a.softplus && step < 20.f) step = __builtin_log1pf(__builtin_expf(step));
    step = step < a.dt_min ? a.dt_min : step;
    if (a.dt_max > 0 && step > a.dt_max) step = a.dt_max;
    widen_row(static_cast<const T*>(a.x) + t * a.x_token + head * a.x_head, width, x);
    widen_row(static_cast<const T*>(a.b) + t * a.b_token + group * a.b_group, size, b);
    widen_row(static_cast<const T*>(a.c) + t * a.c_token + group * a.c_group, size, c);
    const SsdToken token{x, b, c, __builtin_expf(step * rate), step};
    const bool in_work = t > first || fresh, ends = t + 1 == last;
    if (in_work && ends)
      advance(token, work, size, state, a.state_row, width, size, y);
    else if (in_work)
      advance(token, work, size, work, size, width, size, y);
    else if (ends)
      advance(token, state, a.state_row, state, a.state_row, width, size, y);
    else
      advance(token, state, a.state_row, work, size, width, size, y);
    T* out = static_cast<T*>(a.out) + t * a.out_token + head * width;
    each_vector(width, [&](int64_t i, auto n) {
      store(out + i, load(y + i, n) + load(x + i, n) * skip, n);
    });
  }
}

void ssd_head(const Ssd& a, int64_t first, int64_t last, int64_t slot, bool fresh, int64_t head,
              float* scratch) {
  with_type(a.type, [&]<class T>() {
    with_type(a.state_type,
              [&]<class S>() { ssd_tokens<T, S>(a, first, last, slot, fresh, head, scratch); });
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/ssd_chunk_scan.h"

namespace fk::cpu {

struct SsdChunkScanOp : SsdOp<fk::ssd_chunk_scan> {
  using SsdOp::SsdOp;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int32_t* starts = data<int32_t>(args.cu_seqlens);
    const int32_t* has_state = data<int32_t>(args.has_initial_state);
    run(args, ctx.scratch, [&](int64_t b, int64_t& first, int64_t& last, bool& fresh) {
      first = starts[b];
      last = starts[b + 1];
      fresh = has_state[b] == 0;
    });
  }
};
FK_OP(ssd_chunk_scan, SsdChunkScanOp);

}  // namespace fk::cpu
#endif
