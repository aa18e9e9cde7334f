// SPDX-License-Identifier: Apache-2.0
// snake: row by row. Sines are double, because a channel's alpha may be large.
#ifdef FK_CPU_OPS
#include "fk/ops/snake.h"
#include "op.hpp"
#include "small_m.hpp"

namespace fk::cpu {

struct SnakeOp {
  using op = fk::snake;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_float(max.x, "x: f32, bf16 or f16");
    need_same(max.x, max.out, "out: of x's type");
    need_float(weights.alpha, "alpha: f32, bf16 or f16");
    need.scratch = (threads_max() + 1) * padded(init.size) * 4;
  }
  SnakeOp(const fk_host& host, const op::init& init, const op::weights& weights)
      : init_(init), weights_(weights), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    constexpr int64_t kBytesOfSine = 200;  // about 15 ns
    const int64_t width = init_.size, type = type_of(args.x),
                  row_bytes = width * bytes_of(type_of(args.x));
    float* alpha = static_cast<float*>(ctx.scratch);
    convert_({weights_.alpha->data, alpha, /*bias=*/nullptr, type_of(weights_.alpha), kF32,
              /*bias_type=*/0},
             width);
    split(threads_, args.x->shape[0], args.x->shape[0] * width * kBytesOfSine,
          [&](int64_t begin, int64_t end, int thread) {
            float* row = alpha + (thread + 1) * padded(width);
            for (int64_t t = begin; t < end; ++t) {
              convert_({static_cast<const char*>(args.x->data) + t * row_bytes, row,
                        /*bias=*/nullptr, static_cast<int>(type), kF32, /*bias_type=*/0},
                       width);
              for (int64_t c = 0; c < width; ++c) {
                const double a = static_cast<double>(alpha[c]), x = static_cast<double>(row[c]);
                const double wave = std::sin(a * x);
                row[c] = static_cast<float>(x + wave * wave / (a + 1e-9));
              }
              convert_({row, static_cast<char*>(args.out->data) + t * row_bytes, /*bias=*/nullptr,
                        kF32, static_cast<int>(type), /*bias_type=*/0},
                       width);
            }
          });
  }

 private:
  const op::init& init_;
  const op::weights& weights_;
  const int threads_;
  decltype(&generic::convert) convert_ = FK_CPU_PICK(convert);
};
FK_OP(snake, SnakeOp);

}  // namespace fk::cpu
#endif
