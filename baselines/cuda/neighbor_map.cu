// SPDX-License-Identifier: Apache-2.0
// sparse_conv_neighbor_map with a bit for every cell of the output's grid. An output's rank is the
// number of bits before its own, and a pair's place the number of pairs before it. So two scans
// replace hash tables and sorts, and all results are in the order of inputs.
#include "fk/ops/sparse_conv_neighbor_map.h"
#include "parts/device_scan.cuh"
#include "parts/op.cuh"

namespace {
using namespace fkc;

struct Grid {
  int spatial[3], kernel[3], stride[3], padding[3], dilation[3], size[3];  // size: of the output's grid
  int taps;
  bool submanifold;
  explicit Grid(const fk_sparse_conv_neighbor_map_init& init) : taps(1), submanifold(init.submanifold != 0) {
    for (int i = 0; i < 3; ++i) {
      spatial[i] = int(init.spatial_shape->at[i]), kernel[i] = int(init.kernel_size->at[i]), stride[i] = int(init.stride->at[i]);
      padding[i] = int(init.padding->at[i]), dilation[i] = int(init.dilation->at[i]);
      const int room = spatial[i] + 2 * padding[i] - (dilation[i] * (kernel[i] - 1) + 1);
      size[i] = submanifold ? spatial[i] : room < 0 ? 0 : room / stride[i] + 1;
      taps *= kernel[i];
    }
  }
  int64_t words(int64_t batch) const { return cdiv(batch * size[0] * size[1] * size[2], 32); }
  // The output cell of an input at offset k of the kernel; -1: no cell.
  __device__ int64_t reached(const int4& coord, int k) const {
    const int at_input[3] = {coord.y, coord.z, coord.w};
    int64_t cell = coord.x;
    int below = taps;
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      below /= kernel[i];
      const int at = at_input[i] + padding[i] - k / below % kernel[i] * dilation[i];
      if (at < 0 || at % stride[i] || at / stride[i] >= size[i]) return -1;
      cell = cell * size[i] + at / stride[i];
    }
    return cell;
  }
};

// The cells which are outputs, and the number of outputs before each word of bits.
struct Outputs {
  uint32_t* bits;
  int32_t* before;
  int64_t words;
  __device__ bool holds(int64_t cell) const { return cell >= 0 && bits[cell / 32] >> (cell % 32) & 1; }
  __device__ int rank(int64_t cell) const { return before[cell / 32] + __popc(bits[cell / 32] & ((1u << (cell % 32)) - 1)); }
  __device__ int all() const { return words ? before[words - 1] + __popc(bits[words - 1]) : 0; }
};

__global__ void clear_bits(const Outputs outputs) {
  wait_for_inputs();
  if (item_of_thread() < outputs.words) outputs.bits[item_of_thread()] = 0;
}
// Rows by blockIdx.x, offsets of the kernel by blockIdx.y.
__global__ void mark_outputs(const Grid grid, const int4* coords, int rows, const Outputs outputs) {
  wait_for_inputs();
  if (item_of_thread() >= rows) return;
  const int64_t cell = grid.reached(coords[item_of_thread()], grid.submanifold ? grid.taps / 2 : int(blockIdx.y));
  if (cell >= 0) atomicOr(outputs.bits + cell / 32, 1u << (cell % 32));
}
__global__ void count_bits(const Outputs outputs) {
  wait_for_inputs();
  if (item_of_thread() < outputs.words) outputs.before[item_of_thread()] = __popc(outputs.bits[item_of_thread()]);
}
__global__ void note_inputs(const Grid grid, const int4* coords, int rows, const Outputs outputs, int32_t* inputs) {
  wait_for_inputs();
  if (item_of_thread() < rows) inputs[outputs.rank(grid.reached(coords[item_of_thread()], grid.taps / 2))] = int32_t(item_of_thread());
}
__global__ void find_pairs(const Grid grid, const int4* coords, int rows, const Outputs outputs, int32_t* places) {
  wait_for_inputs();
  const int k = int(blockIdx.y);
  if (item_of_thread() < rows) places[int64_t(k) * rows + item_of_thread()] = outputs.holds(grid.reached(coords[item_of_thread()], k));
}
struct Pairs {
  int2* pairs;
  int32_t *counts, *out_count;
  const int32_t *places, *inputs;  // inputs: the row of each output of a submanifold; null: its rank
};
__global__ void write_pairs(const Grid grid, const int4* coords, int rows, const Outputs outputs, const Pairs to) {
  wait_for_inputs();
  const int k = int(blockIdx.y);
  if (item_of_thread() == 0 && !rows) to.counts[k] = 0;
  if (item_of_thread() == 0 && k == 0) *to.out_count = outputs.all();
  if (item_of_thread() >= rows) return;
  const int row = int(item_of_thread()), first = to.places[int64_t(k) * rows], place = to.places[int64_t(k) * rows + row] - first;
  const int64_t cell = grid.reached(coords[row], k);
  const bool meets = outputs.holds(cell);
  if (meets) {
    const int rank = outputs.rank(cell);
    to.pairs[int64_t(k) * rows + place] = make_int2(row, to.inputs ? to.inputs[rank] : rank);
  }
  if (row == rows - 1) to.counts[k] = place + meets;
}
// If outputs exceed the capacity, none is written, as no caller may read them.
__global__ void write_outputs(const Grid grid, const Outputs outputs, int4* out, int64_t capacity) {
  wait_for_inputs();
  const int64_t w = item_of_thread();
  if (w >= outputs.words || outputs.all() > capacity) return;
  int rank = outputs.before[w];
  for (uint32_t bits = outputs.bits[w]; bits; bits &= bits - 1, ++rank) {
    int64_t rest = w * 32 + __ffs(int(bits)) - 1;
    int at[3];
    for (int i = 2; i >= 0; --i) at[i] = int(rest % grid.size[i]), rest /= grid.size[i];
    out[rank] = {int(rest), at[0], at[1], at[2]};
  }
}
__global__ void copy_inputs(const int4* coords, int4* out, int rows) {
  wait_for_inputs();
  if (item_of_thread() < rows) out[item_of_thread()] = coords[item_of_thread()];
}

struct NeighborMap : Base<fk::sparse_conv_neighbor_map> {
  using Base::Base;
  struct Room {
    Outputs outputs;
    int32_t *places, *inputs;
    void* temporary;
    size_t bytes;
    int64_t all;
    // Without memory it only counts.
    Room(void* scratch, const Grid& grid, int64_t batch, int64_t rows) {
      ScratchArena parts(scratch);
      outputs.words = grid.words(batch);
      outputs.bits = parts.take<uint32_t>(outputs.words), outputs.before = parts.take<int32_t>(outputs.words);
      places = parts.take<int32_t>(grid.taps * rows), inputs = parts.take<int32_t>(grid.submanifold ? rows : 0);
      size_t wanted[2] = {};
      exclusive_sum(nullptr, wanted[0], static_cast<int32_t*>(nullptr), int(outputs.words), nullptr);
      exclusive_sum(nullptr, wanted[1], static_cast<int32_t*>(nullptr), int(grid.taps * rows), nullptr);
      bytes = std::max({wanted[0], wanted[1], size_t{1}});
      temporary = parts.take<char>(int64_t(bytes));
      all = parts.used();
    }
  };
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need& wanted) {
    constexpr int64_t kMany = int64_t{1} << 31, kFar = int64_t{1} << 24;
    need(init.batch_size < kMany, "fewer than 2^31 batches");
    int64_t cells = init.batch_size, taps = 1;
    for (int64_t i = 0; i < 3; ++i) {
      const int64_t kernel = init.kernel_size->at[i], stride = init.stride->at[i], padding = init.padding->at[i], dilation = init.dilation->at[i];
      need(init.spatial_shape->at[i] < kFar && padding < kFar && kernel < 1024 && stride < kFar && dilation < (1 << 14), "a grid of up to 2^24 cells a side");
      need(!init.submanifold || (stride == 1 && kernel % 2 == 1 && 2 * padding == dilation * (kernel - 1)), "submanifold: strides of 1 and an odd, centered kernel");
      cells *= init.submanifold ? init.spatial_shape->at[i] : init.spatial_shape->at[i] + 2 * padding;
      need(cells < (kMany - 1) * 32, "fewer than 2^36 cells");
      taps *= kernel;
    }
    need(taps < (1 << 16) && taps * max.coords->shape[0] < kMany, "fewer than 2^31 pairs");
    wanted.scratch = Room(nullptr, Grid(init), init.batch_size, max.coords->shape[0]).all;
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Grid grid(init);
    const int rows = int(a.coords->shape[0]);
    const int64_t capacity = a.out_coords->shape[0];
    const auto* coords = reinterpret_cast<const int4*>(fk::data<int32_t>(a.coords));
    auto* out = reinterpret_cast<int4*>(fk::data<int32_t>(a.out_coords));
    Room room(ctx.scratch, grid, init.batch_size, rows);
    const Outputs outputs = room.outputs;
    const dim3 each_pair(blocks_of(rows), unsigned(grid.taps));
    launch(clear_bits, blocks_of(outputs.words), kItemThreads, 0, ctx, outputs);
    launch(mark_outputs, grid.submanifold ? dim3(blocks_of(rows)) : each_pair, kItemThreads, 0, ctx, grid, coords, rows, outputs);
    launch(count_bits, blocks_of(outputs.words), kItemThreads, 0, ctx, outputs);
    exclusive_sum(room.temporary, room.bytes, outputs.before, int(outputs.words), stream(ctx));
    Pairs to{reinterpret_cast<int2*>(fk::data<int32_t>(a.pairs)), fk::data<int32_t>(a.pair_counts), fk::data<int32_t>(a.out_count), room.places, nullptr};
    if (grid.submanifold) {
      // Every input is an output and keeps its row.
      launch(note_inputs, blocks_of(rows), kItemThreads, 0, ctx, grid, coords, rows, outputs, room.inputs);
      if (rows <= capacity) launch(copy_inputs, blocks_of(rows), kItemThreads, 0, ctx, coords, out, rows);
      to.inputs = room.inputs;
    } else {
      launch(write_outputs, blocks_of(outputs.words), kItemThreads, 0, ctx, grid, outputs, out, capacity);
    }
    launch(find_pairs, each_pair, kItemThreads, 0, ctx, grid, coords, rows, outputs, room.places);
    exclusive_sum(room.temporary, room.bytes, room.places, grid.taps * rows, stream(ctx));
    launch(write_pairs, each_pair, kItemThreads, 0, ctx, grid, coords, rows, outputs, to);
  }
};
FK_OP(sparse_conv_neighbor_map, NeighborMap);

}  // namespace
