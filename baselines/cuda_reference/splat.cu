// SPDX-License-Identifier: Apache-2.0
// gaussian_tile_intersection: one block sorts the Gaussians of an image by depth once, bit by bit.
// Every tile then takes the Gaussians which touch it, in this order.
#include "common.cuh"
#include "fk/ops/gaussian_tile_intersection.h"

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

}  // namespace
