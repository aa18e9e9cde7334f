// SPDX-License-Identifier: Apache-2.0
// gaussian_tile_intersection: for each tile, collects the Gaussians that touch it, and sorts them
// by depth.
#include "fk/ops/gaussian_tile_intersection.h"

#include "op.hpp"

namespace fk::reference {
namespace {

struct Span {
  int64_t first, last;  // last is exclusive
  int64_t size() const { return std::max<int64_t>(0, last - first); }
  bool holds(int64_t tile) const { return tile >= first && tile < last; }
};

// The tiles that a Gaussian touches along one axis. In float32, as the contract demands.
Span reach(float mean, int32_t radius, int64_t tile_size, int64_t tiles) {
  if (radius <= 0) return {0, 0};
  const auto size = static_cast<float>(tile_size);
  const float center = mean / size, width = static_cast<float>(radius) / size;
  const auto inside = [&](float tile) {
    return static_cast<int64_t>(
        std::clamp(static_cast<double>(tile), 0.0, static_cast<double>(tiles)));
  };
  return {inside(std::floor(center - width)), inside(std::ceil(center + width))};
}

struct TileIntersection : Base<gaussian_tile_intersection> {
  using Base::Base;
  // An intersection: image, tile and depth in the key; the Gaussian's number.
  struct Pair {
    int64_t key;
    int32_t id;
  };
  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need& need) {
    const int64_t gaussians = max.depths->shape[0] * max.depths->shape[1];
    need.scratch = gaussians * static_cast<int64_t>(sizeof(Pair));
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t images = args.depths->shape[0], count = args.depths->shape[1];
    const int64_t capacity = args.isect_ids->shape[0];
    const int64_t tiles = init.tile_width * init.tile_height;
    int64_t bits = 1;
    while ((tiles >> bits) > 0) ++bits;
    int32_t* per_gauss = data<int32_t>(args.tiles_per_gauss);
    for (int64_t i = 0; i < images * count; ++i)
      per_gauss[i] = static_cast<int32_t>(columns(args, i).size() * rows(args, i).size());
    int64_t found = 0;
    for (int64_t b = 0; b < images; ++b) {
      for (int64_t tile = 0; tile < tiles; ++tile) {
        data<int32_t>(args.isect_offsets)[b * tiles + tile] = static_cast<int32_t>(found);
        auto* here = static_cast<Pair*>(ctx.scratch);
        auto* end = here;
        for (int64_t i = b * count; i < (b + 1) * count; ++i) {
          if (!rows(args, i).holds(tile / init.tile_width) ||
              !columns(args, i).holds(tile % init.tile_width))
            continue;
          // Depths are positive, so their bits order as the floats do.
          const int64_t depth = std::bit_cast<int32_t>(data<float>(args.depths)[i]);
          *end++ = {b << (32 + bits) | tile << 32 | depth, static_cast<int32_t>(i)};
        }
        std::sort(here, end, [](const Pair& x, const Pair& y) {
          return x.key != y.key ? x.key < y.key : x.id < y.id;
        });
        for (const auto* pair = here; pair < end; ++pair, ++found) {
          if (found >= capacity) continue;
          data<int64_t>(args.isect_ids)[found] = pair->key;
          data<int32_t>(args.flatten_ids)[found] = pair->id;
        }
      }
    }
    data<int64_t>(args.n_isects)[0] = found;
  }

 private:
  // The tiles along axis 0 (x) or 1 (y); none if either radius is not positive.
  Span along(const op::forward& args, int64_t i, int axis, int64_t tiles) const {
    const int32_t* radii = data<int32_t>(args.radii) + 2 * i;
    if (radii[1 - axis] <= 0) return {0, 0};
    return reach(data<float>(args.means2d)[2 * i + axis], radii[axis], init.tile_size, tiles);
  }
  Span columns(const op::forward& args, int64_t i) const {
    return along(args, i, 0, init.tile_width);
  }
  Span rows(const op::forward& args, int64_t i) const {
    return along(args, i, 1, init.tile_height);
  }
};
FK_OP(gaussian_tile_intersection, TileIntersection);

}  // namespace
}  // namespace fk::reference
