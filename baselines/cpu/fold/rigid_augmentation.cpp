// SPDX-License-Identifier: Apache-2.0
// rigid_augmentation: a mean in double, then one pass.
#ifdef FK_CPU_OPS
#include "fk/ops/rigid_augmentation.h"
#include "op.hpp"

namespace fk::cpu {

struct RigidAugmentationOp {
  using op = fk::rigid_augmentation;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward&, fk_need&) {}
  RigidAugmentationOp(const fk_host& host, const op::init&, const op::weights&)
      : threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    split(threads_, args.x->shape[0], args.x->nbytes * 4, [&](int64_t begin, int64_t end, int) {
      for (int64_t b = begin; b < end; ++b) one(args, b);
    });
  }

 private:
  static void one(const op::forward& args, int64_t b) {
    const int64_t atoms = args.x->shape[1];
    const float* x = data<float>(args.x) + 3 * b * atoms;
    const float* q = data<float>(args.rotations) + 4 * b;
    const float* to = data<float>(args.translations) + 3 * b;
    float* out = data<float>(args.out) + 3 * b * atoms;
    double mean[3] = {}, norm = 0;
    for (int64_t t = 0; t < 3 * atoms; ++t) mean[t % 3] += static_cast<double>(x[t]);
    for (double& m : mean) m /= static_cast<double>(atoms);
    for (int c = 0; c < 4; ++c) norm += static_cast<double>(q[c]) * static_cast<double>(q[c]);
    const double w = static_cast<double>(q[0]), i = static_cast<double>(q[1]);
    const double j = static_cast<double>(q[2]), k = static_cast<double>(q[3]);
    const double turn[9] = {w * w + i * i - j * j - k * k, 2 * (i * j - w * k),
                            2 * (i * k + w * j),           2 * (i * j + w * k),
                            w * w - i * i + j * j - k * k, 2 * (j * k - w * i),
                            2 * (i * k - w * j),           2 * (j * k + w * i),
                            w * w - i * i - j * j + k * k};
    for (int64_t t = 0; t < atoms; ++t) {
      for (int r = 0; r < 3; ++r) {
        double sum = static_cast<double>(to[r]);
        for (int c = 0; c < 3; ++c)
          sum += turn[3 * r + c] / norm * (static_cast<double>(x[3 * t + c]) - mean[c]);
        out[3 * t + r] = static_cast<float>(sum);
      }
    }
  }

  const int threads_;
};
FK_OP(rigid_augmentation, RigidAugmentationOp);

}  // namespace fk::cpu
#endif
