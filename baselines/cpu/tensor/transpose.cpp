// SPDX-License-Identifier: Apache-2.0
// transpose: transposes square tiles in the first-level cache.
#include "simd.hpp"

namespace fk::cpu {
// Images [channels, positions] become [positions, channels].
struct Transpose {
  const void* x;
  void* out;
  int64_t channels, positions;
  int type, out_type;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(transpose, const Transpose&, int64_t image, int64_t begin, int64_t end)

namespace fk::cpu::FK_CPU_LEVEL {

inline constexpr int64_t kTile = 32;  // rows and columns of a tile

FK_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// turned[columns, rows] = x[rows, columns]; each has a row stride of its own.
FK_INLINE void turn(const float* x, int64_t x_stride, float* turned, int64_t turned_stride,
                    int64_t rows, int64_t columns) {
  // the colours of a pixel: a loop that the compiler unrolls
  if (rows == 3 && turned_stride == 3) {
    for (int64_t j = 0; j < columns; ++j)
      for (int64_t i = 0; i < 3; ++i) turned[j * 3 + i] = x[i * x_stride + j];
    return;
  }
  for (int64_t j = 0; j < columns; ++j)
    for (int64_t i = 0; i < rows; ++i) turned[j * turned_stride + i] = x[i * x_stride + j];
}

// Positions [begin, end) of one image. Tiles with 16-bit elements pass through float32 copies.
template <class T, class U>
FK_INLINE void transpose_as(const Transpose& a, const T* x, U* out, int64_t begin, int64_t end) {
  alignas(64) float wide[kTile * kTile], turned[kTile * kTile];
  for (int64_t t = begin; t < end; t += kTile) {
    const int64_t columns = least(kTile, end - t);
    for (int64_t c = 0; c < a.channels; c += kTile) {
      const int64_t rows = least(kTile, a.channels - c);
      const T* from = x + c * a.positions + t;
      U* to = out + t * a.channels + c;
      const float* source = wide;
      float* target = turned;
      if constexpr (sizeof(T) == 4) {
        source = from;
      } else {
        for (int64_t i = 0; i < rows; ++i)
          each_vector(columns, [&](int64_t j, auto n) {
            store(wide + i * kTile + j, load(from + i * a.positions + j, n), n);
          });
      }
      if constexpr (sizeof(U) == 4) target = to;
      turn(source, sizeof(T) == 4 ? a.positions : kTile, target, sizeof(U) == 4 ? a.channels : rows,
           rows, columns);
      if constexpr (sizeof(U) != 4) {
        const bool whole = rows == a.channels;  // then the output's rows are contiguous
        const int64_t pieces = whole ? 1 : columns, piece = whole ? columns * rows : rows;
        for (int64_t j = 0; j < pieces; ++j)
          each_vector(piece, [&](int64_t i, auto n) {
            store(to + j * a.channels + i, load(turned + j * rows + i, n), n);
          });
      }
    }
  }
}

void transpose(const Transpose& a, int64_t image, int64_t begin, int64_t end) {
  const int64_t base = image * a.channels * a.positions;
  with_type(a.type, [&]<class T>() {
    with_type(a.out_type, [&]<class U>() {
      transpose_as(a, static_cast<const T*>(a.x) + base, static_cast<U*>(a.out) + base, begin, end);
    });
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/transpose.h"
#include "op.hpp"

namespace fk::cpu {

struct TransposeOp {
  using op = fk::transpose;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    need_float(max.x, "x: f32, bf16 or f16");
    need_float(max.out, "out: f32, bf16 or f16");
  }
  TransposeOp(const fk_host& host, const op::init&, const op::weights&)
      : threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const Transpose a{args.x->data,     args.out->data,  args.x->shape[1],
                      args.x->shape[2], type_of(args.x), type_of(args.out)};
    constexpr int64_t kPart = 256;  // positions
    const int64_t parts = (a.positions + kPart - 1) / kPart;
    split(threads_, args.x->shape[0] * parts, args.x->nbytes + args.out->nbytes,
          [&](int64_t first, int64_t last, int) {
            for (int64_t i = first; i < last; ++i) {
              const int64_t begin = i % parts * kPart;
              kernel_(a, i / parts, begin, std::min(a.positions, begin + kPart));
            }
          });
  }

 private:
  const int threads_;
  decltype(&generic::transpose) kernel_ = FK_CPU_PICK(transpose);
};
FK_OP(transpose, TransposeOp);

}  // namespace fk::cpu
#endif
