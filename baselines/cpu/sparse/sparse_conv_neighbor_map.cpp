// SPDX-License-Identifier: Apache-2.0
// sparse_conv_neighbor_map, with one bit per cell of the output's grid. The bits give the outputs
// in ascending order, and counts of bits give the row of each, so nothing is hashed or sorted.
// Pairs are found for each kernel offset, in parallel.
#ifdef FK_CPU_OPS
#include "fk/ops/sparse_conv_neighbor_map.h"
#include "op.hpp"

namespace fk::cpu {

namespace {

// The output's grid and the kernel. Arrays of three are axes.
struct MapGrid {
  int64_t size[3], kernel[3], stride[3], padding[3], dilation[3];
  int log_stride[3];  // -1: not a power of two
  // positions of the kernel; cells of the output's grid, over all of the batch
  int64_t offsets, cells;

  explicit MapGrid(const fk_sparse_conv_neighbor_map_init& init) {
    cells = init.batch_size;
    offsets = 1;
    for (int i = 0; i < 3; ++i) {
      kernel[i] = init.kernel_size->at[i];
      stride[i] = init.stride->at[i];
      log_stride[i] =
          stride[i] & (stride[i] - 1) ? -1 : __builtin_ctzll(static_cast<uint64_t>(stride[i]));
      padding[i] = init.padding->at[i];
      dilation[i] = init.dilation->at[i];
      const int64_t room =
          init.spatial_shape->at[i] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1;
      size[i] = room < 0 ? 0 : room / stride[i] + 1;
      cells *= size[i];
      offsets *= kernel[i];
    }
  }
  // 64-bit words of one bit per cell.
  int64_t words() const { return cells / 64 + 1; }
};

// Maps inputs to the output cells that they meet at offset k of the kernel.
struct MapOffset {
  const MapGrid& grid;
  int64_t shift[3];
  MapOffset(const MapGrid& g, int64_t k) : grid(g) {
    const int64_t at[] = {k / (g.kernel[1] * g.kernel[2]), k / g.kernel[2] % g.kernel[1],
                          k % g.kernel[2]};
    for (int i = 0; i < 3; ++i) shift[i] = g.padding[i] - at[i] * g.dilation[i];
  }
  // The cell of an input [batch, 3 coordinates], or -1 if there is none.
  int64_t cell(const int32_t* coord) const {
    int64_t out = coord[0];
    for (int i = 0; i < 3; ++i) {
      int64_t at = coord[i + 1] + shift[i];
      if (at < 0) return -1;
      // Strides are nearly always powers of two. A division costs as much as the rest of this
      // function.
      if (grid.log_stride[i] >= 0) {
        if (at & (grid.stride[i] - 1)) return -1;
        at >>= grid.log_stride[i];
      } else {
        if (at % grid.stride[i]) return -1;
        at /= grid.stride[i];
      }
      if (at >= grid.size[i]) return -1;
      out = out * grid.size[i] + at;
    }
    return out;
  }
};

}  // namespace

struct SparseConvNeighborMapOp {
  using op = fk::sparse_conv_neighbor_map;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    const MapGrid grid(init);
    if (grid.cells > int64_t{1} << 34) throw unsupported{"spatial_shape: up to 2^34 cells in all"};
    for (int i = 0; init.submanifold && i < 3; ++i) {
      if (grid.stride[i] != 1 || grid.kernel[i] % 2 == 0 ||
          grid.size[i] != init.spatial_shape->at[i])
        throw unsupported{"submanifold: strides of 1 and an odd, centered kernel"};
    }
    // bits and counts per word, and rows
    need.scratch = grid.words() * 12 + max.coords->shape[0] * 4;
  }
  SparseConvNeighborMapOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), grid_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Map map{};
    map.bits = static_cast<uint64_t*>(ctx.scratch);
    map.before = reinterpret_cast<uint32_t*>(map.bits + grid_.words());
    map.rows = reinterpret_cast<int32_t*>(map.before + grid_.words());
    mark(args, map);
    const int64_t count = rank(map);
    *data<int32_t>(args.out_count) = static_cast<int32_t>(count);
    if (init_.submanifold)
      keep(args, map);
    else if (count <= args.out_coords->shape[0])
      list(args, map);
    pair(args, map);
  }

 private:
  struct Map {
    uint64_t* bits;    // one of each cell
    uint32_t* before;  // of each word: the number of bits in the words before it
    int32_t* rows;     // submanifold: the row of coords for each rank
    // The number of marked cells before `cell`.
    int64_t rank(int64_t cell) const {
      const uint64_t below = bits[cell / 64] & ((uint64_t{1} << cell % 64) - 1);
      return before[cell / 64] + __builtin_popcountll(below);
    }
    bool has(int64_t cell) const { return bits[cell / 64] >> cell % 64 & 1; }
  };

  // Marks the output cells. A submanifold has the cells of its inputs alone.
  void mark(const op::forward& args, const Map& map) const {
    split(threads_, grid_.words(), grid_.words() * 8, [&](int64_t begin, int64_t end, int) {
      std::memset(map.bits + begin, 0, static_cast<size_t>(end - begin) * 8);
    });
    const auto* coords = data<int32_t>(args.coords);
    const int64_t first = init_.submanifold ? grid_.offsets / 2 : 0;
    const int64_t last = init_.submanifold ? first + 1 : grid_.offsets;
    for (int64_t k = first; k < last; ++k) {
      const MapOffset offset(grid_, k);
      for (int64_t row = 0; row < args.coords->shape[0]; ++row) {
        const int64_t cell = offset.cell(coords + 4 * row);
        if (cell >= 0) map.bits[cell / 64] |= uint64_t{1} << cell % 64;
      }
    }
  }

  // Fills `before`; returns the number of marked cells.
  int64_t rank(const Map& map) const {
    uint32_t count = 0;
    for (int64_t w = 0; w < grid_.words(); ++w) {
      map.before[w] = count;
      count += static_cast<uint32_t>(__builtin_popcountll(map.bits[w]));
    }
    return count;
  }

  // Submanifold: outputs keep the order of the inputs.
  void keep(const op::forward& args, const Map& map) const {
    const int64_t count = args.coords->shape[0];
    const auto* coords = data<int32_t>(args.coords);
    const MapOffset center(grid_, grid_.offsets / 2);
    for (int64_t row = 0; row < count; ++row)
      map.rows[map.rank(center.cell(coords + 4 * row))] = static_cast<int32_t>(row);
    if (count && count <= args.out_coords->shape[0])
      std::memcpy(args.out_coords->data, coords, static_cast<size_t>(count) * 16);
  }

  // Writes the coordinates of all marked cells, in ascending order.
  void list(const op::forward& args, const Map& map) const {
    split(threads_, grid_.words(), grid_.words() * 8, [&](int64_t begin, int64_t end, int) {
      for (int64_t w = begin; w < end; ++w) {
        int32_t* out = data<int32_t>(args.out_coords) + 4 * int64_t{map.before[w]};
        for (uint64_t bits = map.bits[w]; bits; bits &= bits - 1, out += 4) {
          int64_t cell = w * 64 + __builtin_ctzll(bits);
          for (int i = 2; i >= 0; cell /= grid_.size[i], --i)
            out[i + 1] = static_cast<int32_t>(cell % grid_.size[i]);
          out[0] = static_cast<int32_t>(cell);
        }
      }
    });
  }

  // Writes the pairs (input row, output row) of each offset.
  void pair(const op::forward& args, const Map& map) const {
    const auto* coords = data<int32_t>(args.coords);
    const int64_t rows = args.coords->shape[0];
    // In a submanifold, the pairs of two opposite offsets are equal but swapped.
    const int64_t half = init_.submanifold ? grid_.offsets / 2 + 1 : grid_.offsets;
    share(threads_, half, half * rows * 64, [&](int64_t k, int) {
      const MapOffset offset(grid_, k);
      int32_t* const pairs = data<int32_t>(args.pairs) + 2 * k * rows;
      int32_t found = 0;
      for (int64_t row = 0; row < rows; ++row) {
        const int64_t cell = offset.cell(coords + 4 * row);
        if (cell < 0 || !map.has(cell)) continue;
        const int64_t rank = map.rank(cell);
        pairs[2 * found] = static_cast<int32_t>(row);
        pairs[2 * found++ + 1] = init_.submanifold ? map.rows[rank] : static_cast<int32_t>(rank);
      }
      data<int32_t>(args.pair_counts)[k] = found;
      const int64_t opposite = grid_.offsets - 1 - k;
      if (!init_.submanifold || opposite == k) return;
      int32_t* const swapped = data<int32_t>(args.pairs) + 2 * opposite * rows;
      for (int32_t i = 0; i < found; ++i) {
        swapped[2 * i] = pairs[2 * i + 1];
        swapped[2 * i + 1] = pairs[2 * i];
      }
      data<int32_t>(args.pair_counts)[opposite] = found;
    });
  }

  const op::init& init_;
  const MapGrid grid_;
  const int threads_;
};
FK_OP(sparse_conv_neighbor_map, SparseConvNeighborMapOp);

}  // namespace fk::cpu
#endif
