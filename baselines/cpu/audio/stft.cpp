// SPDX-License-Identifier: Apache-2.0
// stft: frame by frame, by the sums of the definition. Windows of vocoders have 16 samples.
#ifdef FK_CPU_OPS
#include <numbers>

#include "fk/ops/stft.h"
#include "op.hpp"
#include "small_m.hpp"

namespace fk::cpu {

struct StftOp {
  using op = fk::stft;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    if (FK_DTYPE(max.x) != FK_F32) throw unsupported{"x: f32"};
    need_float(max.out, "out: f32, bf16 or f16");
    if (init.n_fft % 2) throw unsupported{"n_fft: odd"};
    if (max.x->shape[1] <= init.n_fft / 2) throw unsupported{"x: shorter than half a window"};
    // Two waves in double, and a frame and its row for each thread.
    need.scratch = 4 * padded(init.n_fft) * 4 + threads_max() * 2 * padded(init.n_fft + 2) * 4;
  }
  StftOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t size = init_.n_fft, half = size / 2 + 1, samples = args.x->shape[1];
    const int64_t frames = args.out->shape[1], room = padded(size + 2);
    const int type = type_of(args.out);
    auto* waves = static_cast<double*>(ctx.scratch);
    for (int64_t i = 0; i < size; ++i) {
      const double turn = 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(size);
      waves[i] = std::cos(turn);
      waves[padded(size) + i] = std::sin(turn);
    }
    float* rows = static_cast<float*>(ctx.scratch) + 4 * padded(size);
    const int64_t count = args.x->shape[0] * frames;
    split(threads_, count, count * size * half * 16, [&](int64_t begin, int64_t end, int thread) {
      float *part = rows + thread * 2 * room, *row = part + room;
      for (int64_t i = begin; i < end; ++i) {
        const float* x = data<float>(args.x) + i / frames * samples;
        for (int64_t k = 0; k < size; ++k) {
          int64_t at = i % frames * init_.hop + k - size / 2;
          if (at < 0) at = -at;
          if (at >= samples) at = 2 * (samples - 1) - at;
          part[k] = data<float>(args.window)[k] * x[at];
        }
        for (int64_t f = 0; f < half; ++f) {
          double real = 0, imaginary = 0;
          for (int64_t k = 0; k < size; ++k) {
            const auto value = static_cast<double>(part[k]);
            real += value * waves[f * k % size];
            imaginary -= value * waves[padded(size) + f * k % size];
          }
          row[f] = static_cast<float>(real);
          row[half + f] = static_cast<float>(imaginary);
        }
        convert_({row, static_cast<char*>(args.out->data) + i * (size + 2) * bytes_of(type),
                  /*bias=*/nullptr, kF32, type, /*bias_type=*/0},
                 size + 2);
      }
    });
  }

 private:
  const op::init& init_;
  const int threads_;
  decltype(&generic::convert) convert_ = FK_CPU_PICK(convert);
};
FK_OP(stft, StftOp);

}  // namespace fk::cpu
#endif
