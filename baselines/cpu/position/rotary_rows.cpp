// SPDX-License-Identifier: Apache-2.0
// rotary_rows: as rotary_embedding, with tables as wide as the channels that turn. Neighbours are
// turned in a buffer with a lane's partner beside it.
#include "simd.hpp"

namespace fk::cpu {
struct TurnRows {
  void* x;  // the first channel that turns
  const float *cos, *sin;
  int64_t positions, token_stride, head_stride, heads, width;  // strides in elements
  int type, interleaved;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(turn_rows, const TurnRows&, int64_t begin, int64_t end)

namespace fk::cpu::FK_CPU_LEVEL {

template <class T>
FK_INLINE void turn_row_halves(T* x, const float* cos, const float* sin, int64_t half) {
  each_vector(half, [&](int64_t i, auto n) {
    const Vf a = load(x + i, n), b = load(x + half + i, n);
    store(x + i, a * load(cos + i, n) - b * load(sin + i, n), n);
    store(x + half + i, b * load(cos + half + i, n) + a * load(sin + half + i, n), n);
  });
}

template <class T>
FK_INLINE void turn_row_pairs(T* x, const float* cos, const float* sin, int64_t width) {
  each_vector(width, [&](int64_t i, auto n) {
    float in[kLanes], other[kLanes];
    store(in, load(x + i, n));
    for (int64_t j = 0; j < kLanes; j += 2) {
      other[j] = -in[j + 1];
      other[j + 1] = in[j];
    }
    store(x + i, load(in) * load(cos + i, n) + load(other) * load(sin + i, n), n);
  });
}

void turn_rows(const TurnRows& a, int64_t begin, int64_t end) {
  with_type(a.type, [&]<class T>() {
    for (int64_t t = begin; t < end; ++t) {
      const float *cos = a.cos + t % a.positions * a.width,
                  *sin = a.sin + t % a.positions * a.width;
      for (int64_t h = 0; h < a.heads; ++h) {
        T* x = static_cast<T*>(a.x) + t * a.token_stride + h * a.head_stride;
        if (a.interleaved)
          turn_row_pairs(x, cos, sin, a.width);
        else
          turn_row_halves(x, cos, sin, a.width / 2);
      }
    }
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/rotary_rows.h"
#include "op.hpp"

namespace fk::cpu {

struct RotaryRowsOp {
  using op = fk::rotary_rows;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_float(max.q, "q: f32, bf16 or f16");
    need_float(max.k, "k: f32, bf16 or f16");
    if (init.rotary_dim % 2) throw unsupported{"rotary_dim: odd"};
    if (init.offset + init.rotary_dim > init.head_dim)
      throw unsupported{"rotary_dim: beyond the head"};
  }
  RotaryRowsOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const TurnRows q = describe(args, args.q), k = describe(args, args.k);
    const int64_t tokens = args.q->shape[0];
    const int64_t bytes = 2 * tokens * q.width * (q.heads + k.heads) * bytes_of(q.type);
    split(threads_, tokens, bytes, [&](int64_t begin, int64_t end, int) {
      kernel_(q, begin, end);
      kernel_(k, begin, end);
    });
  }

 private:
  TurnRows describe(const op::forward& args, const fk_inout* x) const {
    return {static_cast<char*>(x->data) + init_.offset * bytes_of(type_of(x)),
            data<float>(args.cos),
            data<float>(args.sin),
            args.cos->shape[0],
            x->strides[0],
            x->strides[1],
            x->shape[1],
            init_.rotary_dim,
            type_of(x),
            init_.interleaved != 0};
  }

  const op::init& init_;
  const int threads_;
  decltype(&generic::turn_rows) kernel_ = FK_CPU_PICK(turn_rows);
};
FK_OP(rotary_rows, RotaryRowsOp);

}  // namespace fk::cpu
#endif
