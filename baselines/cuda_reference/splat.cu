// SPDX-License-Identifier: Apache-2.0
// Gaussians in images. gaussian_projection, spherical_harmonics and gaussian_rasterize: one thread
// for each Gaussian, point or pixel. gaussian_tile_intersection: one block sorts the Gaussians of an
// image by depth once, bit by bit. Every tile then takes the Gaussians which touch it, in this order.
#include "common.cuh"
#include "fk/ops/gaussian_projection.h"
#include "fk/ops/gaussian_radii.h"
#include "fk/ops/gaussian_rasterize.h"
#include "fk/ops/gaussian_tile_intersection.h"
#include "fk/ops/spherical_harmonics.h"

namespace {
using namespace fkr;

struct Span {
  int64_t first, last;  // last is excluded
  __device__ int64_t size() const { return last > first ? last - first : 0; }
  __device__ bool holds(int64_t tile) const { return tile >= first && tile < last; }
};
struct Boxes {
  const float* means;
  const int32_t* radii;
  int64_t tile_size, wide, high;
  // The tiles of Gaussian i along an axis, in float32, as the contract says; none where a radius is not positive.
  __device__ Span along(int64_t i, int axis) const {
    if (radii[2 * i] <= 0 || radii[2 * i + 1] <= 0) return {0, 0};
    const float size = float(tile_size), center = means[2 * i + axis] / size, reach = float(radii[2 * i + axis]) / size;
    const double tiles = double(axis ? high : wide);
    return {int64_t(fmin(fmax(double(floorf(center - reach)), 0.0), tiles)), int64_t(fmin(fmax(double(ceilf(center + reach)), 0.0), tiles))};
  }
  __device__ bool touch(int64_t i, int64_t tile) const { return along(i, 1).holds(tile / wide) && along(i, 0).holds(tile % wide); }
};

// order[n] becomes the indices below n by ascending key, and by index for equal keys. `other` has
// room for as many.
__device__ void sort_by(const uint32_t* keys, int64_t n, int32_t* order, int32_t* other) {
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) order[i] = int32_t(i);
  for (int bit = 0; bit < 32; ++bit) {
    __syncthreads();
    const auto is_one = [&](int64_t i) { return int64_t(keys[order[i]] >> bit & 1); };
    int64_t zeros = 0;
    zeros = running_sum(n, [&](int64_t i) { return 1 - is_one(i); }, [&](int64_t i, int64_t before) {
      if (!is_one(i)) other[before] = order[i];
    });
    running_sum(n, is_one, [&](int64_t i, int64_t before) {
      if (is_one(i)) other[zeros + before] = order[i];
    });
    int32_t* done = other;
    other = order;
    order = done;
  }
  __syncthreads();  // 32 exchanges: the result is in `order` again
}

struct TileIntersection : Plain<fk::gaussian_tile_intersection> {
  using Plain::Plain;
  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need& need) {
    need.scratch = max.depths->shape[0] * max.depths->shape[1] * 2 * 4;
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t images = a.depths->shape[0], count = a.depths->shape[1], capacity = a.isect_ids->shape[0];
    const int64_t tiles = init.tile_width * init.tile_height;
    const Boxes boxes{fk::data<float>(a.means2d), fk::data<int32_t>(a.radii), init.tile_size, init.tile_width, init.tile_height};
    const auto* depths = fk::data<uint32_t>(a.depths);  // positive, so their bits are in their order
    auto *order = static_cast<int32_t*>(ctx.scratch), *other = order + images * count;
    auto *per_gauss = fk::data<int32_t>(a.tiles_per_gauss), *offsets = fk::data<int32_t>(a.isect_offsets), *ids = fk::data<int32_t>(a.flatten_ids);
    auto *keys = fk::data<int64_t>(a.isect_ids), *all = fk::data<int64_t>(a.n_isects);
    int bits = 1;
    while (tiles >> bits > 0) ++bits;
    for_each(images * count, ctx, [=] __device__(int64_t i) { per_gauss[i] = int32_t(boxes.along(i, 0).size() * boxes.along(i, 1).size()); });
    for_rows(images, kManyThreads, 0, ctx, [=] __device__(int64_t b) { sort_by(depths + b * count, count, order + b * count, other + b * count); });
    for_rows(images * tiles, ctx, [=] __device__(int64_t i) {
      const int64_t b = i / tiles;
      double found = 0;
      for (int64_t n = threadIdx.x; n < count; n += blockDim.x) found += boxes.touch(b * count + n, i % tiles);
      found = block_sum(found);
      if (threadIdx.x == 0) offsets[i] = int32_t(found);
    });
    for_rows(1, kManyThreads, 0, ctx, [=] __device__(int64_t) {
      const int64_t sum = running_sum(images * tiles, [&](int64_t i) { return int64_t(offsets[i]); },
                                      [&](int64_t i, int64_t before) { offsets[i] = int32_t(before); });
      if (threadIdx.x == 0) *all = sum;
    });
    for_rows(images * tiles, ctx, [=] __device__(int64_t i) {
      const int64_t b = i / tiles, tile = i % tiles;
      const auto touches = [&](int64_t n) { return int64_t(boxes.touch(b * count + order[b * count + n], tile)); };
      running_sum(count, touches, [&](int64_t n, int64_t before) {
        const int64_t place = offsets[i] + before, id = b * count + order[b * count + n];
        if (!touches(n) || place >= capacity) return;
        keys[place] = b << (32 + bits) | tile << 32 | int64_t(depths[id]);
        ids[place] = int32_t(id);
      });
    });
  }
};
FK_OP(gaussian_tile_intersection, TileIntersection);

__device__ double held_between(double v, double low, double high) { return fmin(fmax(v, low), high); }

struct Projection : Plain<fk::gaussian_projection> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t count = a.means->shape[0];
    const float *means = fk::data<float>(a.means), *quats = fk::data<float>(a.quats), *scales = fk::data<float>(a.scales);
    const float *views = fk::data<float>(a.viewmats), *intrinsics = fk::data<float>(a.Ks), *opacities = fk::data<float>(a.opacities);
    float *means2d = fk::data<float>(a.means2d), *extents = fk::data<float>(a.extents), *depths = fk::data<float>(a.depths), *conics = fk::data<float>(a.conics);
    const double wide = double(init.width), high = double(init.height), eps = init.eps2d, near_plane = init.near_plane, far_plane = init.far_plane;
    for_each(a.viewmats->shape[0] * count, ctx, [=] __device__(int64_t at) {
      const int64_t b = at / count, i = at % count;
      const float *view = views + 16 * b, *k = intrinsics + 9 * b;
      const double fx = k[0], fy = k[4], cx = k[2], cy = k[5];
      double p[3];
      for (int r = 0; r < 3; ++r) {
        p[r] = view[4 * r + 3];
        for (int c = 0; c < 3; ++c) p[r] += double(view[4 * r + c]) * means[3 * i + c];
      }
      const double opacity = opacities ? fmin(double(opacities[i]), 1.0) : 1.0;
      const bool seen = p[2] > near_plane && p[2] < far_plane && opacity >= 1.0 / 255;
      double norm = 0, q[4];
      for (int c = 0; c < 4; ++c) norm += double(quats[4 * i + c]) * quats[4 * i + c];
      for (int c = 0; c < 4; ++c) q[c] = quats[4 * i + c] / fmax(sqrt(norm), 1e-12);
      const double w = q[0], x = q[1], y = q[2], r = q[3];
      const double own[9] = {1 - 2 * (y * y + r * r), 2 * (x * y - w * r), 2 * (x * r + w * y), 2 * (x * y + w * r), 1 - 2 * (x * x + r * r),
                             2 * (y * r - w * x), 2 * (x * r - w * y), 2 * (y * r + w * x), 1 - 2 * (x * x + y * y)};
      const double z = p[2], tan_x = 0.5 * wide / fx, tan_y = 0.5 * high / fy;
      const double u = held_between(p[0] / z, -(cx / fx + 0.3 * tan_x), (wide - cx) / fx + 0.3 * tan_x);
      const double v = held_between(p[1] / z, -(cy / fy + 0.3 * tan_y), (high - cy) / fy + 0.3 * tan_y);
      double xx = eps, xy = 0, yy = eps;
      for (int axis = 0; axis < 3; ++axis) {
        double turned[3] = {0, 0, 0};
        for (int row = 0; row < 3; ++row)
          for (int c = 0; c < 3; ++c) turned[row] += view[4 * row + c] * own[3 * c + axis] * scales[3 * i + axis];
        const double gx = fx / z * (turned[0] - u * turned[2]), gy = fy / z * (turned[1] - v * turned[2]);
        xx += gx * gx;
        xy += gx * gy;
        yy += gy * gy;
      }
      const double det = fmax(xx * yy - xy * xy, 1e-10), deviations = opacity >= 1 ? 3.33 : fmin(3.33, sqrt(2 * log(fmax(opacity * 255, 1.0))));
      means2d[2 * at] = seen ? float(fx * p[0] / z + cx) : 0;
      means2d[2 * at + 1] = seen ? float(fy * p[1] / z + cy) : 0;
      extents[2 * at] = seen ? float(deviations * sqrt(xx)) : 0;
      extents[2 * at + 1] = seen ? float(deviations * sqrt(yy)) : 0;
      depths[at] = seen ? float(z) : 0;
      conics[3 * at] = seen ? float(yy / det) : 0;
      conics[3 * at + 1] = seen ? float(-xy / det) : 0;
      conics[3 * at + 2] = seen ? float(xx / det) : 0;
    });
  }
};
struct Radii : Plain<fk::gaussian_radii> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const float* extents = fk::data<float>(a.extents);
    int32_t* radii = fk::data<int32_t>(a.radii);
    for_each(fk_numel(a.extents), ctx, [=] __device__(int64_t i) { radii[i] = int32_t(ceilf(extents[i])); });
  }
};
// One coefficient after the other times its harmonic, so that no array of harmonics is indexed.
struct Harmonics : Plain<fk::spherical_harmonics> {
  using Plain::Plain;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    if (max.coeffs->shape[1] != (init.degree + 1) * (init.degree + 1)) throw fk::unsupported{"coeffs: (degree + 1)^2 for each point"};
  }
  __device__ static double harmonic(int64_t k, double x, double y, double z) {
    const double c = 1.0925484305920792, f = 0.59004358992664352, h = 0.45704579946446572;
    switch (k) {
      case 0: return 0.28209479177387814;
      case 1: return -0.48860251190291992 * y;
      case 2: return 0.48860251190291992 * z;
      case 3: return -0.48860251190291992 * x;
      case 4: return c * x * y;
      case 5: return -c * y * z;
      case 6: return 0.31539156525252005 * (3 * z * z - 1);
      case 7: return -c * x * z;
      case 8: return c / 2 * (x * x - y * y);
      case 9: return -f * y * (3 * x * x - y * y);
      case 10: return 2.8906114426405538 * x * y * z;
      case 11: return -h * y * (5 * z * z - 1);
      case 12: return 0.3731763325901154 * z * (5 * z * z - 3);
      case 13: return -h * x * (5 * z * z - 1);
      case 14: return 1.4453057213202769 * z * (x * x - y * y);
      default: return -f * x * (x * x - 3 * y * y);
    }
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref coeffs = ref(a.coeffs), out = ref(a.out);
    const float *means = fk::data<float>(a.means), *views = fk::data<float>(a.viewmats);
    const int64_t count = a.means->shape[0], terms = a.coeffs->shape[1];
    const double offset = init.offset;
    for_each(a.viewmats->shape[0] * count, ctx, [=] __device__(int64_t at) {
      const float* view = views + 16 * (at / count);
      const int64_t i = at % count;
      double d[3], norm = 0, sums[3] = {offset, offset, offset};
      for (int c = 0; c < 3; ++c) {
        d[c] = means[3 * i + c];
        for (int r = 0; r < 3; ++r) d[c] += double(view[4 * r + c]) * view[4 * r + 3];
        norm += d[c] * d[c];
      }
      norm = fmax(sqrt(norm), 1e-12);
      for (int64_t k = 0; k < terms; ++k)
        for (int c = 0; c < 3; ++c) sums[c] += harmonic(k, d[0] / norm, d[1] / norm, d[2] / norm) * load(coeffs, (i * terms + k) * 3 + c);
      for (int c = 0; c < 3; ++c) store(out, at * 3 + c, fmax(sums[c], 0.0));
    });
  }
};
struct Rasterize : Plain<fk::gaussian_rasterize> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const float *means = fk::data<float>(a.means2d), *conics = fk::data<float>(a.conics), *colors = fk::data<float>(a.colors);
    const float *opacities = fk::data<float>(a.opacities), *behind = fk::data<float>(a.backgrounds);
    const int32_t *offsets = fk::data<int32_t>(a.isect_offsets), *ids = fk::data<int32_t>(a.flatten_ids);
    const int64_t* all = fk::data<int64_t>(a.n_isects);
    float *out = fk::data<float>(a.out), *alphas = fk::data<float>(a.alphas);
    const int64_t high = a.alphas->shape[1], wide = a.alphas->shape[2], size = init.tile_size, room = a.flatten_ids->shape[0];
    const int64_t across = (wide + size - 1) / size, down = (high + size - 1) / size, tiles = a.isect_offsets->shape[0], count = a.means2d->shape[1];
    for_each(fk_numel(fk_as_in(a.alphas)), ctx, [=] __device__(int64_t at) {
      const int64_t b = at / (high * wide), y = at / wide % high, x = at % wide, tile = (b * down + y / size) * across + x / size, found = *all;
      const int64_t last = found > room ? 0 : tile + 1 < tiles ? offsets[tile + 1] : found;
      double light = 1, rgb[3] = {0, 0, 0};
      for (int64_t j = offsets[tile]; j < last; ++j) {
        const int64_t id = ids[j];
        const double dx = means[2 * id] - (double(x) + 0.5), dy = means[2 * id + 1] - (double(y) + 0.5);
        const double s = (conics[3 * id] * dx * dx + conics[3 * id + 2] * dy * dy) / 2 + conics[3 * id + 1] * dx * dy;
        const double alpha = fmin(0.999, opacities[id % count] * exp(-s)), next = light * (1 - alpha);
        if (s < 0 || alpha < 1.0 / 255) continue;
        if (next <= 1e-4) break;
        for (int c = 0; c < 3; ++c) rgb[c] += alpha * light * colors[3 * id + c];
        light = next;
      }
      for (int c = 0; c < 3; ++c) out[3 * at + c] = float(rgb[c] + (behind ? light * behind[3 * b + c] : 0));
      alphas[at] = float(1 - light);
    });
  }
};
FK_OP(gaussian_projection, Projection);
FK_OP(gaussian_radii, Radii);
FK_OP(spherical_harmonics, Harmonics);
FK_OP(gaussian_rasterize, Rasterize);

}  // namespace
