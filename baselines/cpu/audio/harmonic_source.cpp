// SPDX-License-Identifier: Apache-2.0
// harmonic_source: the phases of all frames first, in turns and in double, then the samples.
#ifdef FK_CPU_OPS
#include <numbers>

#include "fk/ops/harmonic_source.h"
#include "op.hpp"
#include "small_m.hpp"

namespace fk::cpu {

struct HarmonicSourceOp {
  using op = fk::harmonic_source;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    if (FK_DTYPE(max.out) != FK_F32) throw unsupported{"out: f32"};
    need_float(weights.weight, "weight: f32, bf16 or f16");
    need.scratch = (padded(init.num_tones) + padded(1) +
                    max.f0->shape[0] * max.f0->shape[1] * init.num_tones) *
                   4;
  }
  HarmonicSourceOp(const fk_host& host, const op::init& init, const op::weights& weights)
      : init_(init), weights_(weights), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    constexpr int64_t kBytesOfTanh = 200;  // about 15 ns
    const int64_t tones = init_.num_tones, frames = args.f0->shape[1];
    float *weight = static_cast<float*>(ctx.scratch), *bias = weight + padded(tones);
    float* sines = bias + padded(1);
    const auto read = [&](const fk_in* from, float* to, int64_t count) {
      convert_({from->data, to, /*bias=*/nullptr, type_of(from), kF32, /*bias_type=*/0}, count);
    };
    read(weights_.weight, weight, tones);
    read(weights_.bias, bias, 1);
    for (int64_t b = 0; b < args.f0->shape[0]; ++b)
      for (int64_t h = 0; h < tones; ++h)
        tone(data<float>(args.f0) + b * frames, frames, h, sines + b * frames * tones + h);
    const float *noise = data<float>(args.noise), *pitch = data<float>(args.f0);
    float* out = data<float>(args.out);
    const int64_t count = args.f0->shape[0] * frames * init_.samples;
    split(threads_, count, count * (kBytesOfTanh + 8 * tones),
          [&](int64_t begin, int64_t end, int) {
            for (int64_t i = begin; i < end; ++i) {
              const int64_t frame = i / init_.samples;
              const bool voiced = static_cast<double>(pitch[frame]) > init_.voiced_threshold;
              const double spread = voiced ? init_.noise_std : init_.amplitude / 3;
              double sum = static_cast<double>(*bias);
              for (int64_t h = 0; h < tones; ++h)
                sum += static_cast<double>(weight[h]) *
                       (static_cast<double>(sines[frame * tones + h]) +
                        spread * static_cast<double>(noise[i * tones + h]));
              out[i] = static_cast<float>(std::tanh(sum));
            }
          });
  }

 private:
  // The sine of tone `h` at each frame, `num_tones` apart.
  void tone(const float* pitch, int64_t frames, int64_t h, float* sines) const {
    double turns = 0;
    for (int64_t t = 0; t < frames; ++t) {
      const auto f0 = static_cast<double>(pitch[t]);
      const double step = f0 * static_cast<double>(h + 1) / init_.sample_rate;
      turns += static_cast<double>(init_.samples) * (step - std::floor(step));
      turns -= std::floor(turns);
      sines[t * init_.num_tones] =
          f0 > init_.voiced_threshold
              ? static_cast<float>(init_.amplitude * std::sin(2 * std::numbers::pi * turns))
              : 0.f;
    }
  }

  const op::init& init_;
  const op::weights& weights_;
  const int threads_;
  decltype(&generic::convert) convert_ = FK_CPU_PICK(convert);
};
FK_OP(harmonic_source, HarmonicSourceOp);

}  // namespace fk::cpu
#endif
