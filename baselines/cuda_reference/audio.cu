// SPDX-License-Identifier: Apache-2.0
// snake, stft, istft and harmonic_source: one thread per result, in double.
#include "common.cuh"
#include "fk/ops/harmonic_source.h"
#include "fk/ops/istft.h"
#include "fk/ops/snake.h"
#include "fk/ops/stft.h"

namespace {
using namespace fkr;

constexpr double kTurn = 6.283185307179586476925;

struct Snake : Plain<fk::snake> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), out = ref(a.out), alpha = ref(weights.alpha);
    const int64_t width = init.size;
    for_each(a.x->shape[0] * width, ctx, [=] __device__(int64_t i) {
      const double factor = load(alpha, i % width), value = load(x, i), wave = sin(factor * value);
      store(out, i, value + wave * wave / (factor + 1e-9));
    });
  }
};

struct Stft : Plain<fk::stft> {
  using Plain::Plain;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    if (init.n_fft % 2) throw fk::unsupported{"n_fft: odd"};
    if (max.x->shape[1] <= init.n_fft / 2) throw fk::unsupported{"x: shorter than half a window"};
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), window = ref(a.window), out = ref(a.out);
    const int64_t samples = a.x->shape[1], frames = a.out->shape[1], size = init.n_fft, half = size / 2 + 1, hop = init.hop;
    for_each(a.x->shape[0] * frames * half, ctx, [=] __device__(int64_t i) {
      const int64_t bin = i % half, row = i / half, line = row / frames, first = row % frames * hop - size / 2;
      double real = 0, imaginary = 0;
      for (int64_t k = 0; k < size; ++k) {
        int64_t at = first + k;
        if (at < 0) at = -at;
        if (at >= samples) at = 2 * (samples - 1) - at;
        const double value = load(window, k) * load(x, line * samples + at), turn = kTurn * double(bin * k % size) / double(size);
        real += value * cos(turn);
        imaginary -= value * sin(turn);
      }
      store(out, row * (size + 2) + bin, real);
      store(out, row * (size + 2) + half + bin, imaginary);
    });
  }
};

struct Istft : Plain<fk::istft> {
  using Plain::Plain;
  static void supports(const op::init& init, const op::weights&, const op::forward&, fk_need&) {
    if (init.n_fft % 2) throw fk::unsupported{"n_fft: odd"};
    if (2 * init.hop > init.n_fft) throw fk::unsupported{"hop: larger than half of n_fft"};
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), window = ref(a.window), out = ref(a.out);
    const int64_t frames = a.x->shape[1], samples = a.out->shape[1], size = init.n_fft, half = size / 2 + 1, hop = init.hop;
    const bool polar = init.polar != 0;
    const double most = init.magnitude_most;
    for_each(a.out->shape[0] * samples, ctx, [=] __device__(int64_t i) {
      const int64_t line = i / samples, at = i % samples + size / 2;
      double sum = 0, weight = 0;
      for (int64_t f = min(at / hop, frames - 1); f >= 0 && at - f * hop < size; --f) {
        const int64_t k = at - f * hop, row = (line * frames + f) * (size + 2);
        double part = 0;
        for (int64_t bin = 0; bin < half; ++bin) {
          double real = load(x, row + bin), imaginary = load(x, row + half + bin);
          if (polar) {
            const double magnitude = fmin(exp(real), most), phase = sin(imaginary);
            real = magnitude * cos(phase);
            imaginary = magnitude * sin(phase);
          }
          const double turn = kTurn * double(bin * k % size) / double(size);
          if (bin == 0 || bin == half - 1)
            part += real * cos(turn);
          else
            part += 2 * (real * cos(turn) - imaginary * sin(turn));
        }
        const double w = load(window, k);
        sum += w * part / double(size);
        weight += w * w;
      }
      store(out, i, sum / weight);
    });
  }
};

// Phases of all frames are in scratch, in turns.
struct HarmonicSource : Plain<fk::harmonic_source> {
  using Plain::Plain;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need& need) {
    need.scratch = max.f0->shape[0] * max.f0->shape[1] * init.num_tones * 8;
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref f0 = ref(a.f0), noise = ref(a.noise), out = ref(a.out), weight = ref(weights.weight), bias = ref(weights.bias);
    const int64_t tones = init.num_tones, frames = a.f0->shape[1], samples = init.samples;
    const double rate = init.sample_rate, amplitude = init.amplitude, spread = init.noise_std, threshold = init.voiced_threshold;
    auto* phases = static_cast<double*>(ctx.scratch);
    for_each(a.f0->shape[0] * tones, ctx, [=] __device__(int64_t i) {
      const int64_t tone = i % tones, line = i / tones;
      double turns = 0;
      for (int64_t t = 0; t < frames; ++t) {
        const double step = load(f0, line * frames + t) * double(tone + 1) / rate;
        turns += double(samples) * (step - floor(step));
        turns -= floor(turns);
        phases[(line * frames + t) * tones + tone] = turns;
      }
    });
    for_each(a.f0->shape[0] * frames * samples, ctx, [=] __device__(int64_t i) {
      const int64_t frame = i / samples;
      const bool voiced = load(f0, frame) > threshold;
      double sum = load(bias, 0);
      for (int64_t h = 0; h < tones; ++h) {
        const double tone = voiced ? amplitude * sin(kTurn * phases[frame * tones + h]) : 0;
        sum += load(weight, h) * (tone + (voiced ? spread : amplitude / 3) * load(noise, i * tones + h));
      }
      store(out, i, tanh(sum));
    });
  }
};
FK_OP(snake, Snake);
FK_OP(stft, Stft);
FK_OP(istft, Istft);
FK_OP(harmonic_source, HarmonicSource);

}  // namespace
