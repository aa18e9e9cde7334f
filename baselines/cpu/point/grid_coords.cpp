// SPDX-License-Identifier: Apache-2.0
// grid_coords: cloud by cloud; places are double.
#include "level.hpp"

#ifdef FK_CPU_OPS
#include "fk/ops/grid_coords.h"
#include "op.hpp"

namespace fk::cpu {

struct GridCoordsOp {
  using op = fk::grid_coords;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights&, const op::forward&, fk_need&) {
    if (!(init.grid_size > 0)) throw unsupported{"grid_size: above 0"};
  }
  GridCoordsOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t points = args.points->shape[1];
    share(threads_, args.points->shape[0], args.points->nbytes * 8, [&](int64_t b, int) {
      one(data<float>(args.points) + b * points * 3, points, static_cast<int32_t>(b),
          data<int32_t>(args.out) + b * points * 4);
    });
  }

 private:
  void one(const float* cloud, int64_t points, int32_t b, int32_t* out) const {
    const auto last = static_cast<double>(init_.edge - 1);
    for (int64_t c = 0; c < 3; ++c) {
      float least = HUGE_VALF;
      for (int64_t i = 0; i < points; ++i) least = std::min(least, cloud[3 * i + c]);
      for (int64_t i = 0; i < points; ++i) {
        const double away = static_cast<double>(cloud[3 * i + c]) - static_cast<double>(least);
        const double cell = std::floor(away / init_.grid_size);
        out[4 * i] = b;
        out[4 * i + 1 + c] = static_cast<int32_t>(cell > 0 ? std::min(cell, last) : 0);
      }
    }
  }

  const op::init& init_;
  const int threads_;
};
FK_OP(grid_coords, GridCoordsOp);

}  // namespace fk::cpu
#endif
