// SPDX-License-Identifier: Apache-2.0
// sparse_conv_neighbor_map: sorts all output cells that inputs reach; these are the outputs. Pairs
// are found by a binary search for each input's output cell.
#include "fk/ops/sparse_conv_neighbor_map.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct NeighborMap : Base<sparse_conv_neighbor_map> {
  using Base::Base;
  // An output: its cell of the grid and its row.
  struct Place {
    int64_t cell, row;
    bool operator<(const Place& other) const { return cell < other.cell; }
  };
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    for (int64_t i = 0; init.submanifold && i < 3; ++i) {
      if (init.stride->at[i] != 1 || init.kernel_size->at[i] % 2 == 0 ||
          2 * init.padding->at[i] != init.dilation->at[i] * (init.kernel_size->at[i] - 1))
        throw unsupported{"submanifold: strides of 1 and an odd, centered kernel"};
    }
    need.scratch = max.coords->shape[0] * max.pairs->shape[0] * int64_t{sizeof(Place)};
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    auto* places = static_cast<Place*>(ctx.scratch);
    const int64_t count = init.submanifold ? inputs(args, places) : outputs(args, places);
    for (int64_t i = 0; i < count && count <= args.out_coords->shape[0]; ++i) {
      int32_t* out = data<int32_t>(args.out_coords) + 4 * places[i].row;
      int64_t cell = places[i].cell;
      for (int axis = 3; axis > 0; cell /= size(axis), --axis)
        out[axis] = static_cast<int32_t>(cell % size(axis));
      out[0] = static_cast<int32_t>(cell);
    }
    *data<int32_t>(args.out_count) = static_cast<int32_t>(count);
    const int64_t rows = args.coords->shape[0];
    for (int64_t k = 0; k < args.pairs->shape[0]; ++k) {
      int32_t found = 0;
      for (int64_t row = 0; row < rows; ++row) {
        const int64_t cell = reached(data<int32_t>(args.coords) + 4 * row, k);
        if (cell < 0) continue;
        const Place* place = std::lower_bound(places, places + count, Place{cell, 0});
        if (place == places + count || place->cell != cell) continue;
        int32_t* pair = data<int32_t>(args.pairs) + 2 * (k * rows + found++);
        pair[0] = static_cast<int32_t>(row);
        pair[1] = static_cast<int32_t>(place->row);
      }
      data<int32_t>(args.pair_counts)[k] = found;
    }
  }

 private:
  // Cells of the output's grid along axis 1, 2 or 3 of a coordinate: z, y, x.
  int64_t size(int axis) const {
    const int i = axis - 1;
    if (init.submanifold) return init.spatial_shape->at[i];
    const int64_t reach = init.dilation->at[i] * (init.kernel_size->at[i] - 1) + 1;
    const int64_t room = init.spatial_shape->at[i] + 2 * init.padding->at[i] - reach;
    return room < 0 ? 0 : room / init.stride->at[i] + 1;
  }
  // The output cell that an input meets at offset k of the kernel, or -1 if there is none.
  int64_t reached(const int32_t* coord, int64_t k) const {
    int64_t cell = coord[0];
    int64_t below = init.kernel_size->at[0] * init.kernel_size->at[1] * init.kernel_size->at[2];
    for (int axis = 1; axis <= 3; ++axis) {
      const int i = axis - 1;
      below /= init.kernel_size->at[i];
      const int64_t offset = k / below % init.kernel_size->at[i];
      const int64_t at = coord[axis] + init.padding->at[i] - offset * init.dilation->at[i];
      if (at < 0 || at % init.stride->at[i] || at / init.stride->at[i] >= size(axis)) return -1;
      cell = cell * size(axis) + at / init.stride->at[i];
    }
    return cell;
  }
  // Submanifold: every input is an output with the same row. Returns their number.
  int64_t inputs(const op::forward& args, Place* places) const {
    const int64_t rows = args.coords->shape[0];
    for (int64_t row = 0; row < rows; ++row)
      places[row] = {reached(data<int32_t>(args.coords) + 4 * row, args.pairs->shape[0] / 2), row};
    std::sort(places, places + rows);
    return rows;
  }
  // All cells that any input reaches, in ascending order. Returns their number.
  int64_t outputs(const op::forward& args, Place* places) const {
    int64_t count = 0;
    for (int64_t k = 0; k < args.pairs->shape[0]; ++k) {
      for (int64_t row = 0; row < args.coords->shape[0]; ++row) {
        const int64_t cell = reached(data<int32_t>(args.coords) + 4 * row, k);
        if (cell >= 0) places[count++] = {cell, 0};
      }
    }
    std::sort(places, places + count);
    const auto same = [](const Place& a, const Place& b) { return a.cell == b.cell; };
    count = std::unique(places, places + count, same) - places;
    for (int64_t i = 0; i < count; ++i) places[i].row = i;
    return count;
  }
};
FK_OP(sparse_conv_neighbor_map, NeighborMap);

}  // namespace
}  // namespace fk::reference
