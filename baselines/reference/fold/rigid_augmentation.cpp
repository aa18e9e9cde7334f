// SPDX-License-Identifier: Apache-2.0
// rigid_augmentation: the mean, then a rotation matrix of each structure.
#include "fk/ops/rigid_augmentation.h"

#include "op.hpp"

namespace fk::reference {
namespace {

struct RigidAugmentation : Base<rigid_augmentation> {
  using Base::Base;
  static void supports(const op::init&, const op::weights&, const op::forward&, fk_need&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t atoms = args.x->shape[1];
    for (int64_t b = 0; b < args.x->shape[0]; ++b) {
      const float* x = data<float>(args.x) + 3 * b * atoms;
      const float* q = data<float>(args.rotations) + 4 * b;
      float* out = data<float>(args.out) + 3 * b * atoms;
      double mean[3] = {}, turn[3][3], norm = 0;
      for (int64_t t = 0; t < atoms; ++t)
        for (int c = 0; c < 3; ++c) mean[c] += value(x[3 * t + c]) / static_cast<double>(atoms);
      for (int i = 0; i < 4; ++i) norm += value(q[i]) * value(q[i]);
      const double w = value(q[0]), i = value(q[1]), j = value(q[2]), k = value(q[3]);
      const double all[3][3] = {
          {w * w + i * i - j * j - k * k, 2 * (i * j - w * k), 2 * (i * k + w * j)},
          {2 * (i * j + w * k), w * w - i * i + j * j - k * k, 2 * (j * k - w * i)},
          {2 * (i * k - w * j), 2 * (j * k + w * i), w * w - i * i - j * j + k * k}};
      for (int r = 0; r < 3; ++r)
        for (int c = 0; c < 3; ++c) turn[r][c] = all[r][c] / norm;
      for (int64_t t = 0; t < atoms; ++t) {
        for (int r = 0; r < 3; ++r) {
          double sum = value(data<float>(args.translations)[3 * b + r]);
          for (int c = 0; c < 3; ++c) sum += turn[r][c] * (value(x[3 * t + c]) - mean[c]);
          out[3 * t + r] = static_cast<float>(sum);
        }
      }
    }
  }
};
FK_OP(rigid_augmentation, RigidAugmentation);

}  // namespace
}  // namespace fk::reference
