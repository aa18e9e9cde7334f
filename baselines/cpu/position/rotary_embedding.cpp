// SPDX-License-Identifier: Apache-2.0
// rotary_embedding: rotates pairs of channels in place. Neox pairs are channels i and i + R/2, so
// vectors of both load directly. Interleaved pairs are neighbours; a small buffer separates them.
#include "simd.hpp"

namespace fk::cpu {
struct Rotary {
  void* x;
  const float* table;  // [L, R]: cosines of R/2 pairs, then sines
  const int64_t* positions;
  int64_t token_stride, head_stride, heads, width;  // width: R; strides in elements
  int type, interleaved;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(rotate, const Rotary&, int64_t begin, int64_t end)

namespace fk::cpu::FK_CPU_LEVEL {

template <class T>
FK_INLINE void turn_halves(T* x, const float* cos, const float* sin, int64_t half) {
  each_vector(half, [&](int64_t i, auto n) {
    const Vf a = load(x + i, n), b = load(x + half + i, n), c = load(cos + i, n),
             s = load(sin + i, n);
    store(x + i, a * c - b * s, n);
    store(x + half + i, b * c + a * s, n);
  });
}

template <class T>
FK_INLINE void turn_pairs(T* x, const float* cos, const float* sin, int64_t half) {
  constexpr int64_t kPairs = 2 * kLanes;
  for (int64_t base = 0; base < half; base += kPairs) {
    const int64_t pairs = half - base < kPairs ? half - base : kPairs;
    float in[2 * kPairs] = {}, out[2 * kPairs], c[kPairs] = {}, s[kPairs] = {};
    each_vector(2 * pairs, [&](int64_t i, auto n) { store(in + i, load(x + 2 * base + i, n)); });
    each_vector(pairs, [&](int64_t i, auto n) {
      store(c + i, load(cos + base + i, n));
      store(s + i, load(sin + base + i, n));
    });
    for (int64_t i = 0; i < kPairs; ++i) {
      out[2 * i] = in[2 * i] * c[i] - in[2 * i + 1] * s[i];
      out[2 * i + 1] = in[2 * i + 1] * c[i] + in[2 * i] * s[i];
    }
    each_vector(2 * pairs, [&](int64_t i, auto n) { store(x + 2 * base + i, load(out + i), n); });
  }
}

void rotate(const Rotary& a, int64_t begin, int64_t end) {
  const int64_t half = a.width / 2;
  with_type(a.type, [&]<class T>() {
    for (int64_t t = begin; t < end; ++t) {
      const float *cos = a.table + a.positions[t] * a.width, *sin = cos + half;
      for (int64_t h = 0; h < a.heads; ++h) {
        T* x = static_cast<T*>(a.x) + t * a.token_stride + h * a.head_stride;
        if (a.interleaved)
          turn_pairs(x, cos, sin, half);
        else
          turn_halves(x, cos, sin, half);
      }
    }
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/rotary_embedding.h"
#include "op.hpp"

namespace fk::cpu {

struct RotaryEmbeddingOp {
  using op = fk::rotary_embedding;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights& weights, const op::forward& max,
                       fk_need&) {
    need_float(max.q, "q: f32, bf16 or f16");
    need_float(max.k, "k: f32, bf16 or f16");
    if (FK_DTYPE(weights.cos_sin_cache) != FK_F32) throw unsupported{"cos_sin_cache: f32 only"};
  }
  RotaryEmbeddingOp(const fk_host& host, const op::init& init, const op::weights& weights)
      : init_(init), weights_(weights), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const Rotary q = describe(args, args.q), k = describe(args, args.k);
    const int64_t tokens = args.positions->shape[0];
    const int64_t bytes = 2 * tokens * q.width * (q.heads + k.heads) * bytes_of(q.type);
    split(threads_, tokens, bytes, [&](int64_t begin, int64_t end, int) {
      kernel_(q, begin, end);
      kernel_(k, begin, end);
    });
  }

 private:
  Rotary describe(const op::forward& args, const fk_inout* x) const {
    return {x->data,
            data<float>(weights_.cos_sin_cache),
            data<int64_t>(args.positions),
            x->strides[0],
            x->strides[1],
            x->shape[1],
            init_.rotary_dim,
            type_of(x),
            init_.interleaved != 0};
  }

  const op::init& init_;
  const op::weights& weights_;
  const int threads_;
  decltype(&generic::rotate) kernel_ = FK_CPU_PICK(rotate);
};
FK_OP(rotary_embedding, RotaryEmbeddingOp);

}  // namespace fk::cpu
#endif
