// SPDX-License-Identifier: Apache-2.0
// Radiance fields. camera_rays, hash_grid_encoding, spherical_harmonics_encoding and volume_render:
// one thread for each pixel, point or ray. ray_march: one thread counts a ray's samples, one block
// adds the counts up, and the thread writes them.
#include "common.cuh"
#include "fk/ops/camera_rays.h"
#include "fk/ops/hash_grid_encoding.h"
#include "fk/ops/ray_march.h"
#include "fk/ops/spherical_harmonics_encoding.h"
#include "fk/ops/volume_render.h"

namespace {
using namespace fkr;

struct CameraRays : Plain<fk::camera_rays> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const float *views = fk::data<float>(a.viewmats), *intrinsics = fk::data<float>(a.Ks);
    float *origins = fk::data<float>(a.origins), *directions = fk::data<float>(a.directions);
    const int64_t high = init.image_size->at[0], wide = init.image_size->at[1];
    for_each(a.origins->shape[0], ctx, [=] __device__(int64_t at) {
      const float *view = views + 16 * (at / (high * wide)), *k = intrinsics + 9 * (at / (high * wide));
      const double x = double(at % wide), y = double(at / wide % high);
      const double seen[3] = {(x + 0.5 - k[2]) / k[0], (y + 0.5 - k[5]) / k[4], 1};
      double d[3] = {0, 0, 0}, squares = 0;
      for (int c = 0; c < 3; ++c) {
        double o = 0;
        for (int r = 0; r < 3; ++r) {
          d[c] += view[4 * r + c] * seen[r];
          o -= double(view[4 * r + c]) * view[4 * r + 3];
        }
        squares += d[c] * d[c];
        origins[3 * at + c] = float(o);
      }
      for (int c = 0; c < 3; ++c) directions[3 * at + c] = float(d[c] / sqrt(squares));
    });
  }
};
FK_OP(camera_rays, CameraRays);

struct March {
  double near_plane, far_plane, step_size, max_step, cone_angle, threshold, width;
  int64_t max_steps, cubes, cells;
  const float* grid;
  __device__ bool occupied(const double* p) const {
    const double x = fabs(p[0]), y = fabs(p[1]), z = fabs(p[2]);
    if (!(x + y + z < 1e300)) return false;
    double wide = 1;
    for (int64_t k = 0; k < cubes; ++k, wide *= 2) {
      if (fmax(fmax(x, y), z) >= wide / 2) continue;
      int64_t cell = k;
      for (int c = 2; c >= 0; --c) {
        const int64_t at = int64_t(floor((p[c] / wide + 0.5) * double(cells)));
        cell = cell * cells + min(max(at, int64_t(0)), cells - 1);
      }
      return double(grid[cell]) > threshold;
    }
    return false;
  }
  template <class Found>
  __device__ void operator()(const float* origin, const float* direction, Found found) const {
    float t = float(near_plane);
    for (int64_t n = 0; n < max_steps && double(t) < far_plane; ++n) {
      const float step = float(fmin(fmax(double(t) * cone_angle, step_size), max_step));
      double p[3];
      for (int c = 0; c < 3; ++c) p[c] = double(origin[c]) + double(t) * double(direction[c]);
      if (occupied(p)) found(p, step);
      t = float(double(t) + double(step));
    }
  }
};
struct RayMarch : Plain<fk::ray_march> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t rays = a.origins->shape[0], room = a.deltas->shape[0], cubes = a.density_grid->shape[0];
    const March march{init.near_plane, init.far_plane, init.step_size, init.max_step, init.cone_angle, init.threshold, std::ldexp(1.0, int(cubes) - 1),
                      init.max_steps, cubes, a.density_grid->shape[1], fk::data<float>(a.density_grid)};
    const float *origins = fk::data<float>(a.origins), *directions = fk::data<float>(a.directions);
    float *positions = fk::data<float>(a.positions), *deltas = fk::data<float>(a.deltas);
    int32_t *ids = fk::data<int32_t>(a.ray_ids), *ranges = fk::data<int32_t>(a.ranges);
    int64_t* all = fk::data<int64_t>(a.n_samples);
    for_each(rays, ctx, [=] __device__(int64_t t) {
      int32_t found = 0;
      march(origins + 3 * t, directions + 3 * t, [&](const double*, float) { ++found; });
      ranges[2 * t + 1] = found;
    });
    for_rows(1, kManyThreads, 0, ctx, [=] __device__(int64_t) {
      const int64_t sum = running_sum(rays, [&](int64_t t) { return int64_t(ranges[2 * t + 1]); }, [&](int64_t t, int64_t before) {
        // A number that 32 bits cannot hold is beyond every room.
        const int64_t end = before + ranges[2 * t + 1], most = INT32_MAX;
        ranges[2 * t] = int32_t(min(before, most));
        ranges[2 * t + 1] = int32_t(min(end, most));
      });
      if (threadIdx.x == 0) *all = sum;
    });
    for_each(rays, ctx, [=] __device__(int64_t t) {
      int64_t place = ranges[2 * t];
      march(origins + 3 * t, directions + 3 * t, [&](const double* p, float step) {
        if (place < room) {
          for (int c = 0; c < 3; ++c) positions[3 * place + c] = float(p[c] / march.width + 0.5);
          deltas[place] = step;
          ids[place] = int32_t(t);
        }
        ++place;
      });
    });
    for_each(room, ctx, [=] __device__(int64_t i) {
      if (i < *all) return;
      for (int c = 0; c < 3; ++c) positions[3 * i + c] = 0;
      deltas[i] = 0;
      ids[i] = 0;
    });
  }
};
FK_OP(ray_march, RayMarch);

constexpr int kMostLevels = 32;
struct HashLevels {
  double scale[kMostLevels];
  int64_t edge[kMostLevels], first[kMostLevels], rows[kMostLevels], all = 0;
  explicit HashLevels(const fk_hash_grid_encoding_init& init) {
    if (init.n_levels > kMostLevels) throw fk::unsupported{"n_levels: 1 to 32"};
    for (int64_t l = 0; l < init.n_levels; ++l) {
      scale[l] = double(init.base_resolution) * std::pow(init.per_level_scale, double(l)) - 1;
      if (!(scale[l] < (1 << 20) - 1)) throw fk::unsupported{"per_level_scale: levels of 2^20 corners"};
      edge[l] = int64_t(std::ceil(scale[l])) + 1;
      first[l] = all;
      rows[l] = std::min(int64_t(1) << init.log2_hashmap_size, (edge[l] * edge[l] * edge[l] + 7) / 8 * 8);
      all += rows[l];
    }
  }
  __device__ int64_t row(int64_t l, uint32_t x, uint32_t y, uint32_t z) const {
    const uint32_t e = uint32_t(edge[l]);
    const bool dense = edge[l] * edge[l] * edge[l] <= rows[l];
    const uint32_t at = dense ? x + y * e + z * e * e : x ^ (y * 2654435761u) ^ (z * 805459861u);
    return first[l] + int64_t(at) % rows[l];
  }
};
struct HashGridEncoding : Plain<fk::hash_grid_encoding> {
  using Plain::Plain;
  static void supports(const op::init& init, const op::weights& weights, const op::forward&, fk_need&) {
    if (HashLevels(init).all != weights.table->shape[0]) throw fk::unsupported{"table: the rows of all levels"};
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const HashLevels levels(init);
    const Ref table = ref(weights.table), out = ref(a.out);
    const float* positions = fk::data<float>(a.positions);
    const int64_t width = init.n_levels * init.n_features, features = init.n_features;
    for_each(a.positions->shape[0] * width, ctx, [=] __device__(int64_t i) {
      const int64_t t = i / width, l = i % width / features, f = i % features;
      uint32_t low[3];
      double part[3], sum = 0;
      for (int c = 0; c < 3; ++c) {
        const double given = positions[3 * t + c], p = (given > 0 ? fmin(given, 1.0) : 0.0) * levels.scale[l] + 0.5;
        low[c] = uint32_t(floor(p));
        part[c] = p - floor(p);
      }
      for (uint32_t corner = 0; corner < 8; ++corner) {
        double share = 1;
        for (uint32_t c = 0; c < 3; ++c) share *= corner >> c & 1 ? part[c] : 1 - part[c];
        const int64_t row = levels.row(l, low[0] + (corner & 1), low[1] + (corner >> 1 & 1), low[2] + (corner >> 2 & 1));
        sum += share * load(table, row * features + f);
      }
      store(out, i, sum);
    });
  }
};
FK_OP(hash_grid_encoding, HashGridEncoding);

struct DirectionEncoding : Plain<fk::spherical_harmonics_encoding> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const float* directions = fk::data<float>(a.directions);
    float* out = fk::data<float>(a.out);
    const int64_t terms = a.out->shape[1];
    for_each(a.out->shape[0] * terms, ctx, [=] __device__(int64_t i) {
      const float* d = directions + 3 * (i / terms);
      const double x = d[0], y = d[1], z = d[2], c = 1.0925484305920792, f = 0.59004358992664352, h = 0.45704579946446572;
      double v = 0;
      switch (i % terms) {
        case 0: v = 0.28209479177387814; break;
        case 1: v = -0.48860251190291992 * y; break;
        case 2: v = 0.48860251190291992 * z; break;
        case 3: v = -0.48860251190291992 * x; break;
        case 4: v = c * x * y; break;
        case 5: v = -c * y * z; break;
        case 6: v = 0.31539156525252005 * (3 * z * z - 1); break;
        case 7: v = -c * x * z; break;
        case 8: v = c / 2 * (x * x - y * y); break;
        case 9: v = -f * y * (3 * x * x - y * y); break;
        case 10: v = 2.8906114426405538 * x * y * z; break;
        case 11: v = -h * y * (5 * z * z - 1); break;
        case 12: v = 0.3731763325901154 * z * (5 * z * z - 3); break;
        case 13: v = -h * x * (5 * z * z - 1); break;
        case 14: v = 1.4453057213202769 * z * (x * x - y * y); break;
        default: v = -f * x * (x * x - 3 * y * y);
      }
      out[i] = float(v);
    });
  }
};
FK_OP(spherical_harmonics_encoding, DirectionEncoding);

struct VolumeRender : Plain<fk::volume_render> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref features = ref(a.features), colors = ref(a.colors);
    const float* deltas = fk::data<float>(a.deltas);
    const int32_t* ranges = fk::data<int32_t>(a.ranges);
    const int64_t room = a.deltas->shape[0];
    float *out = fk::data<float>(a.out), *alphas = fk::data<float>(a.alphas);
    const double least = init.min_transmittance;
    for_each(a.alphas->shape[0], ctx, [=] __device__(int64_t t) {
      const int64_t last = ranges[2 * t + 1] > room ? 0 : ranges[2 * t + 1];
      double light = 1, rgb[3] = {0, 0, 0};
      for (int64_t i = ranges[2 * t]; i < last; ++i) {
        const double alpha = -expm1(-exp(load(features, features.at(i))) * deltas[i]);
        for (int c = 0; c < 3; ++c) rgb[c] += light * alpha * load(colors, 3 * i + c);
        light *= 1 - alpha;
        if (light < least) break;
      }
      for (int c = 0; c < 3; ++c) out[3 * t + c] = float(rgb[c]);
      alphas[t] = float(1 - light);
    });
  }
};
FK_OP(volume_render, VolumeRender);

}  // namespace
