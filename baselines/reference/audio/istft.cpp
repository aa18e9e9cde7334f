// SPDX-License-Identifier: Apache-2.0
// istft: adds the frames which reach a sample, sample by sample.
#include <algorithm>
#include <numbers>

#include "fk/ops/istft.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct Istft : Base<istft> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.x, max.out);
    if (init.n_fft % 2) throw unsupported{"n_fft: odd"};
    if (2 * init.hop > init.n_fft) throw unsupported{"hop: larger than half of n_fft"};
    need.scratch = ((init.n_fft + 2) * 2 + 2 * max.out->shape[1]) * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t size = init.n_fft, frames = args.x->shape[1], samples = args.out->shape[1];
    Scratch scratch(ctx);
    double *row = scratch.take(size + 2), *part = scratch.take(size + 2);
    double *sum = scratch.take(samples), *weight = scratch.take(samples);
    for (int64_t b = 0; b < args.x->shape[0]; ++b) {
      std::fill_n(sum, samples, 0.0);
      std::fill_n(weight, samples, 0.0);
      for (int64_t f = 0; f < frames; ++f) {
        load(args.x, offset(args.x, b, f), size + 2, row);
        if (init.polar) turn(row);
        inverse(row, part);
        for (int64_t k = 0; k < size; ++k) {
          const int64_t at = f * init.hop + k - size / 2;
          if (at < 0 || at >= samples) continue;
          const double window = value(data<float>(args.window)[k]);
          sum[at] += window * part[k];
          weight[at] += window * window;
        }
      }
      for (int64_t i = 0; i < samples; ++i) sum[i] /= weight[i];
      store(args.out, offset(args.out, b), samples, sum);
    }
  }

 private:
  // From logarithms of magnitudes and sines of phases to real and imaginary parts.
  void turn(double* row) const {
    const int64_t half = init.n_fft / 2 + 1;
    for (int64_t i = 0; i < half; ++i) {
      const double magnitude = std::min(std::exp(row[i]), init.magnitude_most);
      const double phase = std::sin(row[half + i]);
      row[i] = magnitude * std::cos(phase);
      row[half + i] = magnitude * std::sin(phase);
    }
  }
  void inverse(const double* row, double* part) const {
    const int64_t size = init.n_fft, half = size / 2 + 1;
    for (int64_t k = 0; k < size; ++k) {
      double sum = 0;
      for (int64_t i = 0; i < half; ++i) {
        const double turn =
            2 * std::numbers::pi * static_cast<double>(i * k % size) / static_cast<double>(size);
        const bool end = i == 0 || i == half - 1;
        sum += (end ? 1 : 2) * row[i] * std::cos(turn);
        if (!end) sum -= 2 * row[half + i] * std::sin(turn);
      }
      part[k] = sum / static_cast<double>(size);
    }
  }
};
FK_OP(istft, Istft);

}  // namespace
}  // namespace fk::reference
