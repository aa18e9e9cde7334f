// SPDX-License-Identifier: Apache-2.0
// stft: frames of a line, each by the sums of the definition.
#include <numbers>

#include "fk/ops/stft.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct Stft : Base<stft> {
  using Base::Base;
  static int64_t lines(const op::init& init) { return 2 * init.n_fft + 2; }
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.x, max.out);
    if (init.n_fft % 2) throw unsupported{"n_fft: odd"};
    if (max.x->shape[1] <= init.n_fft / 2) throw unsupported{"x: shorter than half a window"};
    need.scratch = (max.x->shape[1] + lines(init)) * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t samples = args.x->shape[1], frames = args.out->shape[1], size = init.n_fft;
    Scratch scratch(ctx);
    double *x = scratch.take(samples), *part = scratch.take(size), *row = scratch.take(size + 2);
    for (int64_t b = 0; b < args.x->shape[0]; ++b) {
      load(args.x, offset(args.x, b), samples, x);
      for (int64_t f = 0; f < frames; ++f) {
        for (int64_t k = 0; k < size; ++k) {
          int64_t at = f * init.hop + k - size / 2;
          if (at < 0) at = -at;
          if (at >= samples) at = 2 * (samples - 1) - at;
          part[k] = value(data<float>(args.window)[k]) * x[at];
        }
        transform(part, row);
        store(args.out, offset(args.out, b, f), size + 2, row);
      }
    }
  }

 private:
  void transform(const double* part, double* row) const {
    const int64_t size = init.n_fft, half = size / 2 + 1;
    for (int64_t i = 0; i < half; ++i) {
      row[i] = row[half + i] = 0;
      for (int64_t k = 0; k < size; ++k) {
        const double turn =
            2 * std::numbers::pi * static_cast<double>(i * k % size) / static_cast<double>(size);
        row[i] += part[k] * std::cos(turn);
        row[half + i] -= part[k] * std::sin(turn);
      }
    }
  }
};
FK_OP(stft, Stft);

}  // namespace
}  // namespace fk::reference
