// SPDX-License-Identifier: Apache-2.0
// camera_rays: in double, since samples along rays are chosen by their last bits.
#include "level.hpp"

#ifdef FK_CPU_OPS
#include "fk/ops/camera_rays.h"
#include "op.hpp"

namespace fk::cpu {

struct CameraRaysOp {
  using op = fk::camera_rays;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward&, fk_need&) {}
  CameraRaysOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    split(threads_, args.origins->shape[0], args.origins->nbytes * 8,
          [&](int64_t begin, int64_t end, int) {
            for (int64_t at = begin; at < end; ++at) one(args, at);
          });
  }

 private:
  void one(const op::forward& args, int64_t at) const {
    const int64_t high = init_.image_size->at[0], wide = init_.image_size->at[1];
    const float* view = data<float>(args.viewmats) + 16 * (at / (high * wide));
    const float* k = data<float>(args.Ks) + 9 * (at / (high * wide));
    const auto lens = [&](int64_t pixel, int middle, int focal) {
      return (static_cast<double>(pixel) + 0.5 - static_cast<double>(k[middle])) /
             static_cast<double>(k[focal]);
    };
    const double seen[3] = {lens(at % wide, 2, 0), lens(at / wide % high, 5, 4), 1};
    double d[3], squares = 0;
    for (int c = 0; c < 3; ++c) {
      double o = 0;
      d[c] = 0;
      for (int r = 0; r < 3; ++r) {
        const auto turn = static_cast<double>(view[4 * r + c]);
        d[c] += turn * seen[r];
        o -= turn * static_cast<double>(view[4 * r + 3]);
      }
      squares += d[c] * d[c];
      data<float>(args.origins)[3 * at + c] = static_cast<float>(o);
    }
    for (int c = 0; c < 3; ++c)
      data<float>(args.directions)[3 * at + c] = static_cast<float>(d[c] / std::sqrt(squares));
  }

  const op::init& init_;
  const int threads_;
};
FK_OP(camera_rays, CameraRaysOp);

}  // namespace fk::cpu
#endif
