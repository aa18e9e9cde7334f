// SPDX-License-Identifier: Apache-2.0
// voxel_clusters: cells sorted by cloud, z-order and number; each new code begins a cluster.
#include "fk/ops/voxel_clusters.h"

#include "point.hpp"

namespace fk::reference {
namespace {

struct VoxelClusters : Base<voxel_clusters> {
  using Base::Base;
  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need& need) {
    need.scratch = max.coords->shape[0] * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t cells = args.coords->shape[0], room = args.out_coords->shape[0];
    auto* codes = static_cast<int64_t*>(ctx.scratch);
    auto *rows = data<int32_t>(args.rows), *cluster = data<int32_t>(args.cluster);
    auto *offsets = data<int32_t>(args.offsets), *clouds = data<int32_t>(args.clouds);
    const auto* coords = data<int32_t>(args.coords);
    for (int64_t i = 0; i < cells; ++i) {
      codes[i] = code(coords + 4 * i);
      rows[i] = static_cast<int32_t>(i);
      cluster[i] = 0;
    }
    std::sort(rows, rows + cells, [&](int32_t a, int32_t b) {
      return codes[a] != codes[b] ? codes[a] < codes[b] : a < b;
    });
    std::fill_n(clouds, init.batch_size + 1, 0);
    int64_t found = 0, end = 0;
    for (int64_t j = 0; j < cells && codes[rows[j]] != kNoCode; ++j) {
      const int32_t* from = coords + 4 * rows[j];
      if (j == 0 || codes[rows[j]] != codes[rows[j - 1]]) {
        if (found < room) {
          offsets[found] = static_cast<int32_t>(j);
          int32_t* out = data<int32_t>(args.out_coords) + 4 * found;
          out[0] = from[0];
          for (int c = 1; c < 4; ++c) out[c] = from[c] >> init.shift;
          ++clouds[from[0] + 1];
        }
        ++found;
      }
      if (found > room) continue;
      cluster[rows[j]] = static_cast<int32_t>(found - 1);
      end = j + 1;
    }
    data<int64_t>(args.n_clusters)[0] = found;
    for (int64_t b = 0; b < init.batch_size; ++b) clouds[b + 1] += clouds[b];
    for (int64_t i = std::min(found, room); i <= room; ++i) offsets[i] = static_cast<int32_t>(end);
    const int64_t edge = int64_t{1} << init.depth;
    for (int64_t i = found; i < room; ++i) {
      int32_t* out = data<int32_t>(args.out_coords) + 4 * i;
      out[0] = static_cast<int32_t>(init.batch_size + i / (edge * edge * edge));
      out[1] = static_cast<int32_t>(i / (edge * edge) % edge);
      out[2] = static_cast<int32_t>(i / edge % edge);
      out[3] = static_cast<int32_t>(i % edge);
    }
  }

 private:
  int64_t code(const int32_t* cell) const {
    if (cell[0] < 0 || cell[0] >= init.batch_size) return kNoCode;
    std::array<uint32_t, 3> at;
    for (size_t c = 0; c < 3; ++c) at[c] = static_cast<uint32_t>(cell[c + 1]) >> init.shift;
    return static_cast<int64_t>(cell[0]) << (3 * init.depth) | interleaved(at, init.depth);
  }
};
FK_OP(voxel_clusters, VoxelClusters);

}  // namespace
}  // namespace fk::reference
