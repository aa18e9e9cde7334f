// SPDX-License-Identifier: Apache-2.0
// selective_scan, and the kernel that it shares with selective_scan_update (selective.hpp).
#include "math.hpp"
#include "selective.hpp"

namespace fk::cpu::FK_CPU_LEVEL {

// Elements [begin, end) of data as float32; null: zeros.
FK_INLINE void widen_row_or_zeros(const void* data, int type, int64_t begin, int64_t end,
                                  float* to) {
  if (!data) return each_vector(end - begin, [&](int64_t i, auto n) { store(to + i, Vf{}, n); });
  with_type(type, [&]<class T>() {
    const T* from = static_cast<const T*>(data) + begin;
    each_vector(end - begin, [&](int64_t i, auto n) { store(to + i, load(from + i, n), n); });
  });
}

template <class T, class S>
void selective_tokens(const Selective& a, int64_t first, int64_t last, int64_t slot, bool fresh,
                      int64_t begin, int64_t end, float* scratch) {
  const int64_t size = a.size, row = (size + 15) / 16 * 16, count = end - begin;
  float *state = scratch, *b = state + kSelectiveChannels * row, *c = b + row;
  float *skip = c + row, *bias = skip + kSelectiveChannels;
  float step[kSelectiveChannels], sums[kSelectiveChannels];
  widen_row_or_zeros(a.skip, a.skip_type, begin, end, skip);
  widen_row_or_zeros(a.dt_bias, a.dt_bias_type, begin, end, bias);
  S* slot_state = static_cast<S*>(a.state) + slot * a.state_slot + begin * a.state_channel;
  for (int64_t i = 0; i < count; ++i) {
    const S* from = slot_state + i * a.state_channel;
    each_vector(size, [&](int64_t y, auto n) {
      store(state + i * row + y, fresh ? Vf{} : load(from + y, n), n);
    });
  }
  for (int64_t t = first; t < last; ++t) {
    const T* x = static_cast<const T*>(a.x) + t * a.x_token + begin;
    const T* dt = static_cast<const T*>(a.dt) + t * a.dt_token + begin;
    widen_row_or_zeros(a.b, a.type, t * a.b_token, t * a.b_token + size, b);
    widen_row_or_zeros(a.c, a.type, t * a.c_token, t * a.c_token + size, c);
    each_vector(count, [&](int64_t i, auto n) {
      const Vf v = load(dt + i, n) + load(bias + i, n);
      store(step + i, a.softplus ? softplus(v) : v, n);
    });
    for (int64_t i = 0; i < count; ++i) {
      const Vf s = splat(step[i]), input = splat(step[i] * to_float(x[i]));
      const float* rate = a.a + (begin + i) * size;
      float* h = state + i * row;
      Vf total{};
      each_vector(size, [&](int64_t y, auto n) {
        const Vf next = exp(s * load(rate + y, n)) * load(h + y, n) + input * load(b + y, n);
        store(h + y, next, n);
        total += next * load(c + y, n);
      });
      sums[i] = sum(total);
    }
    const T* z = a.z ? static_cast<const T*>(a.z) + t * a.z_token + begin : nullptr;
    T* out = static_cast<T*>(a.out) + t * a.out_token + begin;
    each_vector(count, [&](int64_t i, auto n) {
      Vf y = load(sums + i, n) + load(skip + i, n) * load(x + i, n);
      if (z) {
        const Vf gate = load(z + i, n);
        y *= gate * sigmoid(gate);
      }
      store(out + i, y, n);
    });
  }
  for (int64_t i = 0; i < count; ++i) {
    S* to = slot_state + i * a.state_channel;
    each_vector(size, [&](int64_t y, auto n) { store(to + y, load(state + i * row + y, n), n); });
  }
}

void selective_channels(const Selective& a, int64_t first, int64_t last, int64_t slot, bool fresh,
                        int64_t begin, int64_t end, float* scratch) {
  with_type(a.type, [&]<class T>() {
    with_type(a.state_type, [&]<class S>() {
      selective_tokens<T, S>(a, first, last, slot, fresh, begin, end, scratch);
    });
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/selective_scan.h"

namespace fk::cpu {

struct SelectiveScanOp : SelectiveOp<fk::selective_scan> {
  using SelectiveOp::SelectiveOp;
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
FK_OP(selective_scan, SelectiveScanOp);

}  // namespace fk::cpu
#endif
