// SPDX-License-Identifier: Apache-2.0
// gaussian_tile_intersection: a counting sort by tile, then a sort of every tile. The counts give
// the offsets and the total before anything is written. A tile is sorted by 64-bit keys, depth then
// Gaussian. Each thread has rows of tiles of its own, so the order is fixed.
#ifdef FK_CPU_OPS
#include "fk/ops/gaussian_tile_intersection.h"
#include "op.hpp"

namespace fk::cpu {

namespace {

// The tiles that a Gaussian touches.
struct TileBox {
  int32_t left, right, top, bottom;  // right and bottom are exclusive
};

// Tiles [first, last) along one axis; mean, radius and size are in pixels.
void tile_span(float mean, int32_t radius, float size, int64_t tiles, int32_t& first,
               int32_t& last) {
  const float center = mean / size, width = static_cast<float>(radius) / size;
  const auto end = static_cast<float>(tiles);
  first = static_cast<int32_t>(std::clamp(std::floor(center - width), 0.f, end));
  last = static_cast<int32_t>(std::clamp(std::ceil(center + width), 0.f, end));
}

}  // namespace

struct GaussianTileIntersectionOp {
  using op = fk::gaussian_tile_intersection;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need.scratch = Parts(init, max, nullptr).bytes;
  }
  GaussianTileIntersectionOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const Parts parts(init_, args, ctx.scratch);
    make_boxes(args, parts);
    const int64_t found = count(args, parts);
    *data<int64_t>(args.n_isects) = found;
    if (found > args.isect_ids->shape[0]) return;
    scatter(args, parts);
    write(args, parts, found);
  }

 private:
  // The parts of scratch. With null scratch it only computes `bytes`.
  struct Parts {
    Parts(const op::init& init, const op::forward& args, void* scratch)
        : gaussians(args.depths->shape[0] * args.depths->shape[1]),
          rows(args.depths->shape[0] * init.tile_height) {
      auto* at = static_cast<char*>(scratch);
      const auto take = [&](int64_t size) {
        char* const taken = at ? at + bytes : nullptr;
        bytes += (size + 63) / 64 * 64;
        return taken;
      };
      boxes = reinterpret_cast<TileBox*>(take(gaussians * int64_t{sizeof(TileBox)}));
      ends = reinterpret_cast<int32_t*>(take(rows * init.tile_width * 4));
      keys = reinterpret_cast<uint64_t*>(take(args.isect_ids->shape[0] * 8));
    }
    int64_t gaussians, rows, bytes = 0;  // rows: rows of tiles in all images
    TileBox* boxes;
    int32_t* ends;   // of each tile: the position after its last key so far
    uint64_t* keys;  // depth in the high half, Gaussian in the low
  };

  // Fills the boxes; a Gaussian without a positive radius touches no tile.
  void make_boxes(const op::forward& args, const Parts& parts) const {
    const auto* means = data<float>(args.means2d);
    const auto* radii = data<int32_t>(args.radii);
    auto* touched = data<int32_t>(args.tiles_per_gauss);
    const auto size = static_cast<float>(init_.tile_size);
    split(threads_, parts.gaussians, parts.gaussians * 40, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        TileBox box{};
        if (radii[2 * i] > 0 && radii[2 * i + 1] > 0) {
          tile_span(means[2 * i], radii[2 * i], size, init_.tile_width, box.left, box.right);
          tile_span(means[2 * i + 1], radii[2 * i + 1], size, init_.tile_height, box.top,
                    box.bottom);
        }
        parts.boxes[i] = box;
        touched[i] = (box.right - box.left) * (box.bottom - box.top);
      }
    });
  }

  // Calls body(Gaussian, tile) for every intersection, in parallel over rows of tiles. The
  // Gaussians of a tile come in ascending order.
  template <class Body>
  void each(const op::forward& args, const Parts& parts, const Body& body) const {
    const int64_t count = args.depths->shape[1];
    split(threads_, parts.rows, parts.gaussians * 32, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin / init_.tile_height * count;
           i < ((end - 1) / init_.tile_height + 1) * count; ++i) {
        const TileBox& box = parts.boxes[i];
        const int64_t first = i / count * init_.tile_height;
        for (int64_t row = std::max(begin, first + box.top);
             row < std::min(end, first + box.bottom); ++row)
          for (int64_t x = box.left; x < box.right; ++x) body(i, row * init_.tile_width + x);
      }
    });
  }

  // Counts each tile's intersections, sets its offset, and returns their total.
  int64_t count(const op::forward& args, const Parts& parts) const {
    const int64_t tiles = parts.rows * init_.tile_width;
    std::fill_n(parts.ends, tiles, 0);
    each(args, parts, [&](int64_t, int64_t tile) { ++parts.ends[tile]; });
    auto* offsets = data<int32_t>(args.isect_offsets);
    int64_t found = 0;
    for (int64_t tile = 0; tile < tiles; ++tile) {
      offsets[tile] = static_cast<int32_t>(found);
      found += parts.ends[tile];
      parts.ends[tile] = offsets[tile];
    }
    return found;
  }

  // Writes the keys into the ranges of their tiles.
  void scatter(const op::forward& args, const Parts& parts) const {
    // Depths are positive, so their bits order as the floats do.
    const auto* depths = data<uint32_t>(args.depths);
    each(args, parts, [&](int64_t i, int64_t tile) {
      parts.keys[parts.ends[tile]++] = uint64_t{depths[i]} << 32 | static_cast<uint32_t>(i);
    });
  }

  // Sorts each tile and writes its ids: image and tile in the high half, depth in the low.
  void write(const op::forward& args, const Parts& parts, int64_t found) const {
    const int64_t per_image = init_.tile_width * init_.tile_height;
    int bits = 0;
    while (per_image >> bits) ++bits;
    const auto* offsets = data<int32_t>(args.isect_offsets);
    share(threads_, parts.rows, found * 40, [&](int64_t row, int) {
      for (int64_t tile = row * init_.tile_width; tile < (row + 1) * init_.tile_width; ++tile) {
        std::sort(parts.keys + offsets[tile], parts.keys + parts.ends[tile]);
        const auto high = static_cast<uint64_t>(tile / per_image) << bits |
                          static_cast<uint64_t>(tile % per_image);
        for (int32_t at = offsets[tile]; at < parts.ends[tile]; ++at) {
          data<uint64_t>(args.isect_ids)[at] = high << 32 | parts.keys[at] >> 32;
          data<uint32_t>(args.flatten_ids)[at] = static_cast<uint32_t>(parts.keys[at]);
        }
      }
    });
  }

  const op::init& init_;
  const int threads_;
};
FK_OP(gaussian_tile_intersection, GaussianTileIntersectionOp);

}  // namespace fk::cpu
#endif
