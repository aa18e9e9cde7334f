// SPDX-License-Identifier: Apache-2.0
// gaussian_tile_intersection as gsplat does it. Every Gaussian counts its tiles, a scan gives the
// places of their keys, and one radix sort orders them. Keys may exceed the capacity, so the
// beginnings of tiles are counted separately.
#include "fk/ops/gaussian_tile_intersection.h"
#include "parts/device_scan.cuh"
#include "parts/op.cuh"

namespace {
using namespace fkc;

struct Boxes {
  const float* means;
  const int32_t* radii;
  int tile_size, wide, high;
  struct Span {
    int first, last;  // last is excluded
    __device__ int size() const { return max(last - first, 0); }
  };
  // The tiles of Gaussian i along an axis, in float32, as the contract says; none where a radius is not positive.
  __device__ Span along(int64_t i, int axis) const {
    if (radii[2 * i] <= 0 || radii[2 * i + 1] <= 0) return {0, 0};
    const float size = float(tile_size), center = __fdiv_rn(means[2 * i + axis], size), reach = __fdiv_rn(float(radii[2 * i + axis]), size);
    const float tiles = float(axis ? high : wide);
    return {int(fminf(fmaxf(floorf(center - reach), 0.F), tiles)), int(fminf(fmaxf(ceilf(center + reach), 0.F), tiles))};
  }
};

__global__ void clear(int32_t* counts, int64_t size) {
  wait_for_inputs();
  const int64_t i = item_of_thread();
  if (i < size) counts[i] = 0;
}

__global__ void count_tiles(const Boxes boxes, int32_t* per_gauss, int32_t* of_tiles, int64_t all, int64_t of_image) {
  wait_for_inputs();
  const int64_t i = item_of_thread();
  if (i >= all) return;
  const auto x = boxes.along(i, 0), y = boxes.along(i, 1);
  per_gauss[i] = x.size() * y.size();
  int32_t* const of = of_tiles + i / of_image * boxes.wide * boxes.high;
  for (int row = y.first; row < y.last; ++row)
    for (int column = x.first; column < x.last; ++column) atomicAdd(of + row * boxes.wide + column, 1);
}

struct Keys {
  uint64_t* keys;
  int32_t* ids;
  int64_t capacity;
  int tile_bits, bits;  // of a tile; of a key. The highest bit marks unused keys
};
__global__ void write_keys(const Boxes boxes, const float* depths, const int64_t* starts, const Keys to, int64_t all, int64_t of_image) {
  wait_for_inputs();
  const int64_t i = item_of_thread();
  if (i >= all) return;
  const auto x = boxes.along(i, 0), y = boxes.along(i, 1);
  const uint64_t low = uint64_t(i / of_image) << (32 + to.tile_bits) | __float_as_uint(depths[i]);
  int64_t at = starts[i];
  for (int row = y.first; row < y.last; ++row)
    for (int column = x.first; column < x.last && at < to.capacity; ++column, ++at)
      to.keys[at] = low | uint64_t(row * boxes.wide + column) << 32, to.ids[at] = int32_t(i);
}
// Fills the rest of the capacity with keys which sort behind all others.
__global__ void fill_rest(const Keys to, const int64_t* starts, const int32_t* per_gauss, int64_t* count, int64_t all) {
  wait_for_inputs();
  const int64_t i = item_of_thread(), found = all ? starts[all - 1] + per_gauss[all - 1] : 0;
  if (i == 0) *count = found;
  if (i >= found && i < to.capacity) to.keys[i] = uint64_t{1} << (to.bits - 1), to.ids[i] = 0;
}

struct TileIntersection : Base<fk::gaussian_tile_intersection> {
  using Base::Base;
  struct Room {
    int64_t* starts;
    Keys keys;
    void* temporary;
    size_t bytes;
    int64_t all;
    // Without memory it only counts. The sizes are limits, or the sizes of a call.
    Room(void* scratch, const op::init& init, int64_t images, int64_t gaussians, int64_t capacity) {
      ScratchArena parts(scratch);
      const int64_t tiles = init.tile_width * init.tile_height, n = images * gaussians;
      starts = parts.take<int64_t>(n);
      keys = {parts.take<uint64_t>(capacity), parts.take<int32_t>(capacity), capacity, 1, 1};
      while (tiles >> keys.tile_bits > 0) ++keys.tile_bits;
      while (images - 1 >> (keys.bits - 1) > 0) ++keys.bits;
      keys.bits += 32 + keys.tile_bits;
      size_t wanted[3] = {};
      exclusive_sum(nullptr, wanted[0], nullptr, static_cast<int64_t*>(nullptr), int(n), nullptr);
      exclusive_sum(nullptr, wanted[1], static_cast<int32_t*>(nullptr), int(images * tiles), nullptr);
      sort_pairs(nullptr, wanted[2], nullptr, nullptr, nullptr, nullptr, int(capacity), keys.bits, nullptr);
      bytes = std::max({wanted[0], wanted[1], wanted[2], size_t{1}});
      temporary = parts.take<char>(int64_t(bytes));
      all = parts.used();
    }
  };
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need& wanted) {
    constexpr int64_t kMany = int64_t{1} << 31, kSide = 1 << 12;
    const int64_t images = max.depths->shape[0], gaussians = max.depths->shape[1], capacity = max.isect_ids->shape[0];
    need(init.tile_width <= kSide && init.tile_height <= kSide && init.tile_size < (1 << 24), "an image of up to 4096 tiles a side");
    need(images <= 64 && images * gaussians < kMany && capacity < kMany && images * init.tile_width * init.tile_height < kMany,
         "up to 64 images and fewer than 2^31 Gaussians, tiles and intersections");
    wanted.scratch = Room(nullptr, init, images, gaussians, capacity).all;
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t images = a.depths->shape[0], gaussians = a.depths->shape[1], capacity = a.isect_ids->shape[0];
    const int64_t all = images * gaussians, tiles = images * init.tile_width * init.tile_height;
    Room room(ctx.scratch, init, images, gaussians, capacity);
    const Boxes boxes{fk::data<float>(a.means2d), fk::data<int32_t>(a.radii), int(init.tile_size), int(init.tile_width), int(init.tile_height)};
    auto *per_gauss = fk::data<int32_t>(a.tiles_per_gauss), *offsets = fk::data<int32_t>(a.isect_offsets);
    launch(clear, blocks_of(tiles), kItemThreads, 0, ctx, offsets, tiles);
    launch(count_tiles, blocks_of(all), kItemThreads, 0, ctx, boxes, per_gauss, offsets, all, gaussians);
    exclusive_sum(room.temporary, room.bytes, offsets, int(tiles), stream(ctx));
    exclusive_sum(room.temporary, room.bytes, per_gauss, room.starts, int(all), stream(ctx));
    launch(write_keys, blocks_of(all), kItemThreads, 0, ctx, boxes, fk::data<float>(a.depths), room.starts, room.keys, all, gaussians);
    launch(fill_rest, blocks_of(capacity), kItemThreads, 0, ctx, room.keys, room.starts, per_gauss, fk::data<int64_t>(a.n_isects), all);
    sort_pairs(room.temporary, room.bytes, room.keys.keys, reinterpret_cast<uint64_t*>(fk::data<int64_t>(a.isect_ids)), room.keys.ids,
               fk::data<int32_t>(a.flatten_ids), int(capacity), room.keys.bits, stream(ctx));
  }
};
FK_OP(gaussian_tile_intersection, TileIntersection);

}  // namespace
