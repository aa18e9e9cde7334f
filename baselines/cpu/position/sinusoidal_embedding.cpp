// SPDX-License-Identifier: Apache-2.0
// sinusoidal_embedding: a row for each request. Angles are double, because a time may be large.
#ifdef FK_CPU_OPS
#include "fk/ops/sinusoidal_embedding.h"
#include "op.hpp"
#include "small_m.hpp"

namespace fk::cpu {

struct SinusoidalEmbeddingOp {
  using op = fk::sinusoidal_embedding;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_float(max.out, "out: f32, bf16 or f16");
    need.scratch = threads_max() * padded(init.size) * 4;
  }
  SinusoidalEmbeddingOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    constexpr int64_t kBytesOfSine = 400;  // about 30 ns
    const int64_t width = init_.size, half = width / 2;
    const double step =
        std::log(init_.max_period) / (static_cast<double>(half) - init_.downscale_freq_shift);
    const int64_t sines = init_.flip_sin_to_cos ? half : 0, cosines = half - sines;
    const int64_t element = bytes_of(type_of(args.out));
    split(threads_, args.t->shape[0], args.t->shape[0] * width * kBytesOfSine,
          [&](int64_t begin, int64_t end, int thread) {
            float* row = static_cast<float*>(ctx.scratch) + thread * padded(width);
            row[width - 1] = 0;
            for (int64_t b = begin; b < end; ++b) {
              const double t = init_.scale * static_cast<double>(data<float>(args.t)[b]);
              for (int64_t i = 0; i < half; ++i) {
                const double angle = t * std::exp(-step * static_cast<double>(i));
                row[sines + i] = static_cast<float>(std::sin(angle));
                row[cosines + i] = static_cast<float>(std::cos(angle));
              }
              convert_({row, static_cast<char*>(args.out->data) + b * width * element,
                        /*bias=*/nullptr, kF32, type_of(args.out), /*bias_type=*/0},
                       width);
            }
          });
  }

 private:
  const op::init& init_;
  const int threads_;
  decltype(&generic::convert) convert_ = FK_CPU_PICK(convert);
};
FK_OP(sinusoidal_embedding, SinusoidalEmbeddingOp);

}  // namespace fk::cpu
#endif
