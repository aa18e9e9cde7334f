// SPDX-License-Identifier: Apache-2.0
// spmm_csr: one thread per element of the output, which sums its row's entries in their order.
// sparse_conv_neighbor_map with a bit for every cell of the output's grid. An output's rank is the
// number of bits before its own, so nothing is sorted. Bits are only set, so their order does not
// matter.
#include "common.cuh"
#include "fk/ops/sparse_conv_neighbor_map.h"
#include "fk/ops/spmm_csr.h"

namespace {
using namespace fkr;

struct Grid {
  int64_t spatial[3], kernel[3], stride[3], padding[3], dilation[3], size[3];  // size: of the output's grid
  bool submanifold;
  int64_t batch;
  explicit Grid(const fk_sparse_conv_neighbor_map_init& init) : submanifold(init.submanifold != 0), batch(init.batch_size) {
    for (int i = 0; i < 3; ++i) {
      spatial[i] = init.spatial_shape->at[i];
      kernel[i] = init.kernel_size->at[i];
      stride[i] = init.stride->at[i];
      padding[i] = init.padding->at[i];
      dilation[i] = init.dilation->at[i];
      const int64_t room = spatial[i] + 2 * padding[i] - (dilation[i] * (kernel[i] - 1) + 1);
      size[i] = submanifold ? spatial[i] : room < 0 ? 0 : room / stride[i] + 1;
    }
  }
  int64_t words() const { return (batch * size[0] * size[1] * size[2] + 31) / 32; }
  __host__ __device__ int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  // The output cell of an input at offset k of the kernel; -1: no cell.
  __device__ int64_t reached(const int32_t* coord, int64_t k) const {
    int64_t cell = coord[0], below = taps();
    for (int i = 0; i < 3; ++i) {
      below /= kernel[i];
      const int64_t at = coord[i + 1] + padding[i] - k / below % kernel[i] * dilation[i];
      if (at < 0 || at % stride[i] || at / stride[i] >= size[i]) return -1;
      cell = cell * size[i] + at / stride[i];
    }
    return cell;
  }
};

// The cells which are outputs, and the number of outputs before each word of bits.
struct Outputs {
  uint32_t *bits, *before;
  __device__ bool holds(int64_t cell) const { return cell >= 0 && bits[cell / 32] >> (cell % 32) & 1; }
  __device__ int64_t rank(int64_t cell) const { return before[cell / 32] + __popc(bits[cell / 32] & ((1u << (cell % 32)) - 1)); }
};

void mark(const Grid& grid, const int32_t* coords, int64_t rows, const Outputs& outputs, const fk_ctx& ctx) {
  for_each(grid.words(), ctx, [=] __device__(int64_t w) { outputs.bits[w] = 0; });
  const int64_t taps = grid.taps();
  for_each(rows * taps, ctx, [=] __device__(int64_t i) {
    const int64_t row = i / taps, k = i % taps;
    if (grid.submanifold && k != taps / 2) return;
    const int64_t cell = grid.reached(coords + 4 * row, k);
    if (cell >= 0) atomicOr(outputs.bits + cell / 32, 1u << (cell % 32));
  });
}
// One block per offset of the kernel; pairs are in the order of inputs.
void pair_up(const Grid& grid, const fk_sparse_conv_neighbor_map_forward& a, const Outputs& outputs, const int32_t* inputs, const fk_ctx& ctx) {
  const int64_t rows = a.coords->shape[0];
  const auto* coords = fk::data<int32_t>(a.coords);
  auto *pairs = fk::data<int32_t>(a.pairs), *counts = fk::data<int32_t>(a.pair_counts);
  for_rows(grid.taps(), kManyThreads, 0, ctx, [=] __device__(int64_t k) {
    const auto meets = [&](int64_t row) { return int64_t(outputs.holds(grid.reached(coords + 4 * row, k))); };
    const int64_t found = running_sum(rows, meets, [&](int64_t row, int64_t place) {
      if (!meets(row)) return;
      const int64_t rank = outputs.rank(grid.reached(coords + 4 * row, k));
      int32_t* pair = pairs + 2 * (k * rows + place);
      pair[0] = int32_t(row);
      pair[1] = inputs ? inputs[rank] : int32_t(rank);
    });
    if (threadIdx.x == 0) counts[k] = int32_t(found);
  });
}

struct NeighborMap : Plain<fk::sparse_conv_neighbor_map> {
  using Plain::Plain;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need& need) {
    for (int64_t i = 0; init.submanifold && i < 3; ++i) {
      if (init.stride->at[i] != 1 || init.kernel_size->at[i] % 2 == 0 ||
          2 * init.padding->at[i] != init.dilation->at[i] * (init.kernel_size->at[i] - 1))
        throw fk::unsupported{"submanifold: strides of 1 and an odd, centered kernel"};
    }
    need.scratch = Grid(init).words() * 8 + max.coords->shape[0] * 4;
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Grid grid(init);
    const int64_t rows = a.coords->shape[0], capacity = a.out_coords->shape[0], words = grid.words();
    const auto* coords = fk::data<int32_t>(a.coords);
    auto *out = fk::data<int32_t>(a.out_coords), *count = fk::data<int32_t>(a.out_count);
    const Outputs outputs{static_cast<uint32_t*>(ctx.scratch), static_cast<uint32_t*>(ctx.scratch) + words};
    mark(grid, coords, rows, outputs, ctx);
    for_rows(1, kManyThreads, 0, ctx, [=] __device__(int64_t) {
      const int64_t all = running_sum(words, [&](int64_t w) { return int64_t(__popc(outputs.bits[w])); },
                                      [&](int64_t w, int64_t sum) { outputs.before[w] = uint32_t(sum); });
      if (threadIdx.x == 0) *count = int32_t(all);
    });
    // If outputs exceed the capacity, none is written, as no caller may read them.
    if (grid.submanifold) {
      // Every input is an output and keeps its row. `inputs`: the row of each rank.
      auto* inputs = reinterpret_cast<int32_t*>(outputs.before + words);
      for_each(rows, ctx, [=] __device__(int64_t row) { inputs[outputs.rank(grid.reached(coords + 4 * row, grid.taps() / 2))] = int32_t(row); });
      for_each(rows <= capacity ? 4 * rows : 0, ctx, [=] __device__(int64_t i) { out[i] = coords[i]; });
      pair_up(grid, a, outputs, inputs, ctx);
      return;
    }
    for_each(words, ctx, [=] __device__(int64_t w) {
      if (*count > capacity) return;
      for (int64_t cell = 32 * w; cell < 32 * w + 32; ++cell) {
        if (!outputs.holds(cell)) continue;
        int64_t rest = cell;
        int32_t* coord = out + 4 * outputs.rank(cell);
        for (int i = 2; i >= 0; rest /= grid.size[i], --i) coord[i + 1] = int32_t(rest % grid.size[i]);
        coord[0] = int32_t(rest);
      }
    });
    pair_up(grid, a, outputs, nullptr, ctx);
  }
};

struct SpmmCsr : Plain<fk::spmm_csr> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref values = ref(a.values), x = ref(a.x), out = ref(a.out);
    const auto *indptr = fk::data<int32_t>(a.indptr), *indices = fk::data<int32_t>(a.indices);
    const int64_t width = init.size;
    for_each(a.out->shape[0] * width, ctx, [=] __device__(int64_t i) {
      const int64_t m = i / width, c = i % width;
      double sum = 0;
      for (int64_t j = indptr[m]; j < indptr[m + 1]; ++j) sum += load(values, j) * load(x, indices[j] * width + c);
      store(out, i, sum);
    });
  }
};
FK_OP(spmm_csr, SpmmCsr);
FK_OP(sparse_conv_neighbor_map, NeighborMap);

}  // namespace
