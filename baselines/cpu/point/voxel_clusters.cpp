// SPDX-License-Identifier: Apache-2.0
// voxel_clusters: one thread sorts codes and walks along them.
#include "level.hpp"

#ifdef FK_CPU_OPS
#include "fk/ops/voxel_clusters.h"
#include "point/curve.hpp"

namespace fk::cpu {

struct VoxelClustersOp {
  using op = fk::voxel_clusters;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need& need) {
    need.scratch = max.coords->shape[0] * 8;
  }
  VoxelClustersOp(const fk_host&, const op::init& init, const op::weights&) : init_(init) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t cells = args.coords->shape[0], room = args.out_coords->shape[0];
    auto* codes = static_cast<int64_t*>(ctx.scratch);
    const auto* coords = data<int32_t>(args.coords);
    auto *rows = data<int32_t>(args.rows), *cluster = data<int32_t>(args.cluster);
    auto *offsets = data<int32_t>(args.offsets), *clouds = data<int32_t>(args.clouds);
    auto* out = data<int32_t>(args.out_coords);
    for (int64_t i = 0; i < cells; ++i) codes[i] = code(coords + 4 * i);
    sort_by(codes, cells, rows);
    std::fill_n(clouds, init_.batch_size + 1, 0);
    int64_t found = 0, end = 0;
    for (int64_t j = 0; j < cells; ++j) {
      const int64_t row = rows[j], own = codes[row];
      if (own != kNoCode && (j == 0 || own != codes[rows[j - 1]]) && ++found <= room) {
        offsets[found - 1] = static_cast<int32_t>(j);
        out[4 * found - 4] = coords[4 * row];
        for (int c = 1; c < 4; ++c) out[4 * found - 4 + c] = coords[4 * row + c] >> init_.shift;
        ++clouds[coords[4 * row] + 1];
      }
      const bool counts = own != kNoCode && found <= room;
      cluster[row] = counts ? static_cast<int32_t>(found - 1) : 0;
      if (counts) end = j + 1;
    }
    *data<int64_t>(args.n_clusters) = found;
    for (int64_t b = 0; b < init_.batch_size; ++b) clouds[b + 1] += clouds[b];
    for (int64_t i = std::min(found, room); i <= room; ++i) offsets[i] = static_cast<int32_t>(end);
    const int64_t edge = int64_t{1} << init_.depth;
    for (int64_t i = found; i < room; ++i) {
      out[4 * i] = static_cast<int32_t>(init_.batch_size + i / (edge * edge * edge));
      out[4 * i + 1] = static_cast<int32_t>(i / (edge * edge) % edge);
      out[4 * i + 2] = static_cast<int32_t>(i / edge % edge);
      out[4 * i + 3] = static_cast<int32_t>(i % edge);
    }
  }

 private:
  int64_t code(const int32_t* cell) const {
    if (cell[0] < 0 || cell[0] >= init_.batch_size) return kNoCode;
    uint32_t at[3];
    for (int c = 0; c < 3; ++c) at[c] = static_cast<uint32_t>(cell[c + 1]) >> init_.shift;
    return static_cast<int64_t>(cell[0]) << (3 * init_.depth) | interleave(at, init_.depth);
  }

  const op::init& init_;
};
FK_OP(voxel_clusters, VoxelClustersOp);

}  // namespace fk::cpu
#endif
