// SPDX-License-Identifier: Apache-2.0
// rotary_rows: a thread turns four pairs of channels of a head. Tables are as wide as the channels.
#include "fk/ops/rotary_rows.h"
#include "parts/op.cuh"

namespace {
using namespace fkc;

// A tensor whose heads turn; strides in elements.
template <class T> struct Heads {
  T* data;
  int64_t token, head;
  int count;
};

template <class T>
__global__ void __launch_bounds__(kItemThreads) turn(Heads<T> q, Heads<T> k, const float* cosines, const float* sines, int64_t items, int64_t positions,
                                                     int parts) {
  wait_for_inputs();
  const int64_t i = item_of_thread();
  if (i >= items) return;
  const int all = q.count + k.count, part = int(i % parts), h = int(i / parts % all);
  const int64_t t = i / parts / all;
  const int half = 4 * parts, first = 4 * part;  // channels
  T* const x = (h < q.count ? q.data + t * q.token + h * q.head : k.data + t * k.token + (h - q.count) * k.head) + first;
  float low[4], high[4], cosine[4], sine[4], other_cosine[4], other_sine[4];
  load_floats(x, low);
  load_floats(x + half, high);
  const int64_t row = t % positions * 2 * half + first;
  load_floats(cosines + row, cosine);
  load_floats(sines + row, sine);
  load_floats(cosines + row + half, other_cosine);
  load_floats(sines + row + half, other_sine);
  float a[4], b[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    a[j] = low[j] * cosine[j] - high[j] * sine[j];
    b[j] = high[j] * other_cosine[j] + low[j] * other_sine[j];
  }
  store_floats(x, a);
  store_floats(x + half, b);
}

struct RotaryRows : Base<fk::rotary_rows> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_16bit(fk_as_in(max.q));
    need(!init.interleaved, "interleaved: halves only");
    need(init.rotary_dim % 8 == 0 && init.offset % 4 == 0, "rotary_dim: a multiple of 8 only, offset: of 4");
    need(init.offset + init.rotary_dim <= init.head_dim, "rotary_dim: beyond the head");
    need_aligned(fk_as_in(max.q));
    need_aligned(fk_as_in(max.k));
    need(init.num_heads + init.num_kv_heads < int64_t{1} << 31 && init.rotary_dim < int64_t{1} << 31, "heads, rotary_dim: below 2^31");
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t parts = init.rotary_dim / 8, items = a.q->shape[0] * (init.num_heads + init.num_kv_heads) * parts;
    if (!items) return;
    dispatch(fk_as_in(a.q), [&](auto type) {
      using T = decltype(type);
      const Heads<T> q{fk::data<T>(a.q) + init.offset, a.q->strides[0], a.q->strides[1], int(init.num_heads)};
      const Heads<T> k{fk::data<T>(a.k) + init.offset, a.k->strides[0], a.k->strides[1], int(init.num_kv_heads)};
      launch(turn<T>, blocks_of(items), kItemThreads, 0, ctx, q, k, fk::data<float>(a.cos), fk::data<float>(a.sin), items, a.cos->shape[0], int(parts));
    });
  }
};
FK_OP(rotary_rows, RotaryRows);

}  // namespace
