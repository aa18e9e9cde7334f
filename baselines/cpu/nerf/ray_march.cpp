// SPDX-License-Identifier: Apache-2.0
// ray_march: rays are counted, the counts added up, and the samples written in a second march.
#include "level.hpp"

#ifdef FK_CPU_OPS
#include "fk/ops/ray_march.h"
#include "nerf/nerf.hpp"

namespace fk::cpu {

struct RayMarchOp {
  using op = fk::ray_march;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward&, fk_need&) {}
  RayMarchOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t rays = args.origins->shape[0], room = args.deltas->shape[0];
    const int64_t cubes = args.density_grid->shape[0];
    const March march{init_.near_plane,
                      init_.far_plane,
                      init_.step_size,
                      init_.max_step,
                      init_.cone_angle,
                      init_.threshold,
                      std::ldexp(1.0, static_cast<int>(cubes) - 1),
                      init_.max_steps,
                      cubes,
                      args.density_grid->shape[1],
                      data<float>(args.density_grid)};
    const float *origins = data<float>(args.origins), *directions = data<float>(args.directions);
    int32_t* ranges = data<int32_t>(args.ranges);
    const int64_t work = rays * std::min<int64_t>(init_.max_steps, 1024) * 64;
    split(threads_, rays, work, [&](int64_t begin, int64_t end, int) {
      for (int64_t t = begin; t < end; ++t) {
        int32_t found = 0;
        march(origins + 3 * t, directions + 3 * t, [&](const double*, float) { ++found; });
        ranges[2 * t + 1] = found;
      }
    });
    int64_t all = 0;
    for (int64_t t = 0; t < rays; ++t) {
      const int64_t own = ranges[2 * t + 1];
      ranges[2 * t] = range_end(all);
      all += own;
      ranges[2 * t + 1] = range_end(all);
    }
    *data<int64_t>(args.n_samples) = all;
    split(threads_, rays, work, [&](int64_t begin, int64_t end, int) {
      for (int64_t t = begin; t < end; ++t) write(args, march, t, room);
    });
    for (int64_t i = all; i < room; ++i) {
      std::fill_n(data<float>(args.positions) + 3 * i, 3, 0.F);
      data<float>(args.deltas)[i] = 0;
      data<int32_t>(args.ray_ids)[i] = 0;
    }
  }

 private:
  // A number of samples that 32 bits cannot hold is beyond every room, as the largest number is.
  static int32_t range_end(int64_t samples) {
    return static_cast<int32_t>(std::min<int64_t>(samples, INT32_MAX));
  }
  static void write(const op::forward& args, const March& march, int64_t t, int64_t room) {
    int64_t place = data<int32_t>(args.ranges)[2 * t];
    march(data<float>(args.origins) + 3 * t, data<float>(args.directions) + 3 * t,
          [&](const double* p, float step) {
            if (place < room) {
              for (int c = 0; c < 3; ++c)
                data<float>(args.positions)[3 * place + c] =
                    static_cast<float>(p[c] / march.width + 0.5);
              data<float>(args.deltas)[place] = step;
              data<int32_t>(args.ray_ids)[place] = static_cast<int32_t>(t);
            }
            ++place;
          });
  }

  const op::init& init_;
  const int threads_;
};
FK_OP(ray_march, RayMarchOp);

}  // namespace fk::cpu
#endif
