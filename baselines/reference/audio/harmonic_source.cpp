// SPDX-License-Identifier: Apache-2.0
// harmonic_source: tones of a pitch with noise, frame by frame. Phases are in turns.
#include <numbers>

#include "fk/ops/harmonic_source.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct HarmonicSource : Base<harmonic_source> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.out);
    need.scratch = (4 * init.num_tones + init.samples) * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t tones = init.num_tones, frames = args.f0->shape[1];
    Scratch scratch(ctx);
    double *weight = scratch.take(tones), *turns = scratch.take(tones);
    double *sines = scratch.take(tones), *noise = scratch.take(tones);
    double* out = scratch.take(init.samples);
    double bias = 0;
    load(weights.weight, 0, tones, weight);
    load(weights.bias, 0, 1, &bias);
    for (int64_t b = 0; b < args.f0->shape[0]; ++b) {
      std::fill_n(turns, tones, 0.0);
      for (int64_t t = 0; t < frames; ++t) {
        const double pitch = value(data<float>(args.f0)[offset(args.f0, b, t)]);
        const bool voiced = pitch > init.voiced_threshold;
        const double spread = voiced ? init.noise_std : init.amplitude / 3;
        for (int64_t h = 0; h < tones; ++h) {
          const double step = pitch * static_cast<double>(h + 1) / init.sample_rate;
          turns[h] += static_cast<double>(init.samples) * (step - std::floor(step));
          turns[h] -= std::floor(turns[h]);
          sines[h] = voiced ? init.amplitude * std::sin(2 * std::numbers::pi * turns[h]) : 0;
        }
        for (int64_t i = 0; i < init.samples; ++i) {
          load(args.noise, offset(args.noise, b, t * init.samples + i), tones, noise);
          double sum = bias;
          for (int64_t h = 0; h < tones; ++h) sum += weight[h] * (sines[h] + spread * noise[h]);
          out[i] = std::tanh(sum);
        }
        store(args.out, offset(args.out, b, t * init.samples), init.samples, out);
      }
    }
  }
};
FK_OP(harmonic_source, HarmonicSource);

}  // namespace
}  // namespace fk::reference
