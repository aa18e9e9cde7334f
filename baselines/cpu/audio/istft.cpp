// SPDX-License-Identifier: Apache-2.0
// istft: frames first, then the sums of those which reach a sample.
#ifdef FK_CPU_OPS
#include <numbers>

#include "fk/ops/istft.h"
#include "op.hpp"
#include "small_m.hpp"

namespace fk::cpu {

struct IstftOp {
  using op = fk::istft;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_float(max.x, "x: f32, bf16 or f16");
    if (FK_DTYPE(max.out) != FK_F32) throw unsupported{"out: f32"};
    if (init.n_fft % 2) throw unsupported{"n_fft: odd"};
    if (2 * init.hop > init.n_fft) throw unsupported{"hop: larger than half of n_fft"};
    // Two waves in double, a row for each thread, and all frames.
    need.scratch = 4 * padded(init.n_fft) * 4 + threads_max() * padded(init.n_fft + 2) * 4 +
                   max.x->shape[0] * max.x->shape[1] * init.n_fft * 4;
  }
  IstftOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t size = init_.n_fft, half = size / 2 + 1, frames = args.x->shape[1];
    auto* waves = static_cast<double*>(ctx.scratch);
    for (int64_t i = 0; i < size; ++i) {
      const double turn = 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(size);
      waves[i] = std::cos(turn);
      waves[padded(size) + i] = std::sin(turn);
    }
    float* rows = static_cast<float*>(ctx.scratch) + 4 * padded(size);
    float* parts = rows + threads_max() * padded(size + 2);
    const int64_t count = args.x->shape[0] * frames, type = type_of(args.x);
    split(threads_, count, count * size * half * 16, [&](int64_t begin, int64_t end, int thread) {
      float* row = rows + thread * padded(size + 2);
      for (int64_t i = begin; i < end; ++i) {
        convert_({static_cast<const char*>(args.x->data) +
                      i * (size + 2) * bytes_of(static_cast<int>(type)),
                  row, /*bias=*/nullptr, static_cast<int>(type), kF32, /*bias_type=*/0},
                 size + 2);
        if (init_.polar) turn(row);
        inverse(row, waves, parts + i * size);
      }
    });
    add_frames(args, parts);
  }

 private:
  // From logarithms of magnitudes and sines of phases to real and imaginary parts.
  void turn(float* row) const {
    const int64_t half = init_.n_fft / 2 + 1;
    for (int64_t i = 0; i < half; ++i) {
      const double magnitude =
          std::min(std::exp(static_cast<double>(row[i])), init_.magnitude_most);
      const double phase = std::sin(static_cast<double>(row[half + i]));
      row[i] = static_cast<float>(magnitude * std::cos(phase));
      row[half + i] = static_cast<float>(magnitude * std::sin(phase));
    }
  }
  void inverse(const float* row, const double* waves, float* part) const {
    const int64_t size = init_.n_fft, half = size / 2 + 1;
    for (int64_t k = 0; k < size; ++k) {
      double sum = static_cast<double>(row[0]) +
                   static_cast<double>(row[half - 1]) * waves[(half - 1) * k % size];
      for (int64_t f = 1; f + 1 < half; ++f)
        sum += 2 * (static_cast<double>(row[f]) * waves[f * k % size] -
                    static_cast<double>(row[half + f]) * waves[padded(size) + f * k % size]);
      part[k] = static_cast<float>(sum / static_cast<double>(size));
    }
  }
  void add_frames(const op::forward& args, const float* parts) const {
    const int64_t size = init_.n_fft, frames = args.x->shape[1], samples = args.out->shape[1];
    const float* window = data<float>(args.window);
    const int64_t count = args.out->shape[0] * samples;
    split(threads_, count, count * 8 * size / init_.hop, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t at = i % samples + size / 2, line = i / samples;
        double sum = 0, weight = 0;
        for (int64_t f = std::min(at / init_.hop, frames - 1); f >= 0; --f) {
          const int64_t k = at - f * init_.hop;
          if (k >= size) break;
          const auto w = static_cast<double>(window[k]);
          sum += w * static_cast<double>(parts[(line * frames + f) * size + k]);
          weight += w * w;
        }
        data<float>(args.out)[i] = static_cast<float>(sum / weight);
      }
    });
  }

  const op::init& init_;
  const int threads_;
  decltype(&generic::convert) convert_ = FK_CPU_PICK(convert);
};
FK_OP(istft, IstftOp);

}  // namespace fk::cpu
#endif
