// SPDX-License-Identifier: Apache-2.0
// Point clouds. Cells are sorted by counting. A cell's place is the number of cells with a smaller
// code, or with the same one and a smaller number. neighbor_table and sparse_conv: one thread for
// each element.
#include "common.cuh"
#define FK_ATTENTION_PATCHES_EDITION 2  // with the field that the contract marks `since: 2`
#include "fk/ops/attention_patches.h"
#include "fk/ops/grid_coords.h"
#include "fk/ops/neighbor_table.h"
#include "fk/ops/segment_reduce.h"
#include "fk/ops/sort_rows.h"
#include "fk/ops/space_filling_code.h"
#include "fk/ops/sparse_conv.h"
#include "fk/ops/voxel_clusters.h"

namespace {
using namespace fkr;

constexpr int64_t kNoCode = INT64_MAX;

__device__ int64_t interleaved(const uint32_t* at, int64_t depth) {
  int64_t code = 0;
  for (int64_t bit = depth - 1; bit >= 0; --bit)
    for (int c = 0; c < 3; ++c) code = code << 1 | int64_t(at[c] >> bit & 1);
  return code;
}
__device__ int64_t hilbert(uint32_t* at, int64_t depth) {
  for (int64_t bit = depth - 1; bit > 0; --bit) {
    const uint32_t below = (1u << bit) - 1;
    for (int c = 0; c < 3; ++c) {
      const uint32_t both = (at[0] ^ at[c]) & below;
      if (at[c] >> bit & 1) {
        at[0] ^= below;
      } else {
        at[0] ^= both;
        at[c] ^= both;
      }
    }
  }
  // The running exclusive or over all bits, the highest first.
  uint32_t parity = 0;
  for (int64_t bit = depth - 1; bit >= 0; --bit) {
    for (int c = 0; c < 3; ++c) {
      parity ^= at[c] >> bit & 1;
      at[c] = (at[c] & ~(1u << bit)) | parity << bit;
    }
  }
  return interleaved(at, depth);
}
// rows[n] becomes the indices of keys in ascending order.
void sort_by_rank(const int64_t* keys, int64_t n, int32_t* rows, const fk_ctx& ctx) {
  for_rows(n, ctx, [=] __device__(int64_t i) {
    double before = 0;
    for (int64_t j = threadIdx.x; j < n; j += blockDim.x) before += keys[j] < keys[i] || (keys[j] == keys[i] && j < i);
    before = block_sum(before);
    if (threadIdx.x == 0) rows[int64_t(before)] = int32_t(i);
  });
}

struct GridCoords : Plain<fk::grid_coords> {
  using Plain::Plain;
  static void supports(const op::init& init, const op::weights&, const op::forward&, fk_need&) {
    if (!(init.grid_size > 0)) throw fk::unsupported{"grid_size: above 0"};
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const float* points = fk::data<float>(a.points);
    int32_t* out = fk::data<int32_t>(a.out);
    const int64_t count = a.points->shape[1];
    const double size = init.grid_size, last = double(init.edge - 1);
    for_rows(a.points->shape[0] * 3, ctx, [=] __device__(int64_t row) {
      const int64_t b = row / 3, c = row % 3;
      const float* cloud = points + b * count * 3;
      double least = HUGE_VAL;
      for (int64_t i = threadIdx.x; i < count; i += blockDim.x) least = fmin(least, double(cloud[3 * i + c]));
      least = -block_max(-least);
      for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
        const double cell = floor((double(cloud[3 * i + c]) - least) / size);
        out[4 * (b * count + i) + 1 + c] = int32_t(cell > 0 ? fmin(cell, last) : 0);
        if (c == 0) out[4 * (b * count + i)] = int32_t(b);
      }
    });
  }
};
FK_OP(grid_coords, GridCoords);

struct SpaceFillingCode : Plain<fk::space_filling_code> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int32_t* coords = fk::data<int32_t>(a.coords);
    int64_t* codes = fk::data<int64_t>(a.codes);
    const int64_t order = init.order, depth = init.depth, clouds = init.batch_size;
    for_each(a.codes->shape[0], ctx, [=] __device__(int64_t t) {
      const int32_t* cell = coords + 4 * t;
      const bool trans = order & 1;
      uint32_t at[3] = {uint32_t(cell[trans ? 2 : 1]), uint32_t(cell[trans ? 1 : 2]), uint32_t(cell[3])};
      const int64_t code = order & 2 ? hilbert(at, depth) : interleaved(at, depth);
      codes[t] = cell[0] >= 0 && cell[0] < clouds ? int64_t(cell[0]) << (3 * depth) | code : kNoCode;
    });
  }
};
FK_OP(space_filling_code, SpaceFillingCode);

struct SortRows : Plain<fk::sort_rows> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) { 
    const int32_t* rows = fk::data<int32_t>(a.rows);
    int32_t* ranks = fk::data<int32_t>(a.ranks);
    sort_by_rank(fk::data<int64_t>(a.keys), a.keys->shape[0], fk::data<int32_t>(a.rows), ctx);
    for_each(a.keys->shape[0], ctx, [=] __device__(int64_t i) { ranks[rows[i]] = int32_t(i); });
  }
};
FK_OP(sort_rows, SortRows);

struct VoxelClusters : Plain<fk::voxel_clusters> {
  using Plain::Plain;
  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need& need) { need.scratch = max.coords->shape[0] * 8; }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t cells = a.coords->shape[0], room = a.out_coords->shape[0], shift = init.shift, depth = init.depth, batch = init.batch_size;
    int64_t* codes = static_cast<int64_t*>(ctx.scratch);
    const int32_t* coords = fk::data<int32_t>(a.coords);
    int32_t *rows = fk::data<int32_t>(a.rows), *cluster = fk::data<int32_t>(a.cluster), *offsets = fk::data<int32_t>(a.offsets);
    int32_t *clouds = fk::data<int32_t>(a.clouds), *out = fk::data<int32_t>(a.out_coords);
    int64_t* all = fk::data<int64_t>(a.n_clusters);
    for_each(cells, ctx, [=] __device__(int64_t i) {
      const int32_t* cell = coords + 4 * i;
      const uint32_t at[3] = {uint32_t(cell[1]) >> shift, uint32_t(cell[2]) >> shift, uint32_t(cell[3]) >> shift};
      codes[i] = cell[0] >= 0 && cell[0] < batch ? int64_t(cell[0]) << (3 * depth) | interleaved(at, depth) : kNoCode;
      cluster[i] = 0;
    });
    for_each(batch + 1, ctx, [=] __device__(int64_t b) { clouds[b] = 0; });
    sort_by_rank(codes, cells, rows, ctx);
    for_rows(1, kManyThreads, 0, ctx, [=] __device__(int64_t) {
      const auto begins = [&](int64_t j) { return int64_t(codes[rows[j]] != kNoCode && (j == 0 || codes[rows[j]] != codes[rows[j - 1]])); };
      const int64_t found = running_sum(cells, begins, [&](int64_t j, int64_t before) {
        const bool first = begins(j);
        const int64_t at = before + first - 1;
        if (codes[rows[j]] == kNoCode || at >= room) return;
        cluster[rows[j]] = int32_t(at);
        if (first) offsets[at] = int32_t(j);
      });
      if (threadIdx.x == 0) *all = found;
    });
    // Where rows of clusters end: cells that count, and are not of a cluster beyond the room.
    for_rows(1, kManyThreads, 0, ctx, [=] __device__(int64_t) {
      const int64_t found = min(*all, room);
      double end = 0;
      for (int64_t j = threadIdx.x; j < cells; j += blockDim.x)
        end += codes[rows[j]] != kNoCode && found && (codes[rows[j]] <= codes[rows[offsets[found - 1]]]);
      end = block_sum(end);
      for (int64_t i = found + threadIdx.x; i <= room; i += blockDim.x) offsets[i] = int32_t(end);
    });
    for_each(room, ctx, [=] __device__(int64_t i) {
      const int64_t edge = int64_t(1) << depth;
      if (i < *all) {
        const int32_t* cell = coords + 4 * rows[offsets[i]];
        out[4 * i] = cell[0];
        for (int c = 1; c < 4; ++c) out[4 * i + c] = cell[c] >> shift;
        atomicAdd(clouds + cell[0] + 1, 1);
      } else {
        out[4 * i] = int32_t(batch + i / (edge * edge * edge));
        out[4 * i + 1] = int32_t(i / (edge * edge) % edge);
        out[4 * i + 2] = int32_t(i / edge % edge);
        out[4 * i + 3] = int32_t(i % edge);
      }
    });
    for_rows(1, kManyThreads, 0, ctx, [=] __device__(int64_t) {
      running_sum(batch + 1, [&](int64_t b) { return int64_t(clouds[b]); }, [&](int64_t b, int64_t before) { clouds[b] += int32_t(before); });
    });
  }
};
FK_OP(voxel_clusters, VoxelClusters);

// Clouds are few, and one thread cuts them. Cells are then copied by all.
struct AttentionPatches : Plain<fk::attention_patches> {
  using Plain::Plain;
  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need& need) { need.scratch = max.clouds->shape[0] * 8; }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t cells = a.rows->shape[0], all = a.padded_rows->shape[0], clouds = a.clouds->shape[0] - 1, patch = init.patch_size, ends = a.cu_seqlens->shape[0];
    const int32_t *rows = fk::data<int32_t>(a.rows), *ranks = fk::data<int32_t>(a.ranks), *firsts = fk::data<int32_t>(a.clouds);
    int32_t *padded = fk::data<int32_t>(a.padded_rows), *places = fk::data<int32_t>(a.places), *cu = fk::data<int32_t>(a.cu_seqlens);
    float* mask = a.mask.or_null ? fk::data<float>(a.mask.or_null) : nullptr;
    const int64_t masked = mask ? a.mask.or_null->shape[0] * patch : 0;
    int64_t* starts = static_cast<int64_t*>(ctx.scratch);  // of each cloud, and behind all, in places
    for_each(1, ctx, [=] __device__(int64_t) {
      int64_t at = 0, begun = 0;
      for (int64_t b = 0; b <= clouds; ++b) {
        const int64_t count = b < clouds ? firsts[b + 1] - firsts[b] : all - at;
        const int64_t room = b < clouds && (mask || count > patch) ? (count + patch - 1) / patch * patch : count;
        starts[b] = at;
        for (int64_t j = at; j < at + room; j += patch) cu[begun++] = int32_t(j);
        at += room;
      }
      for (; begun < ends; ++begun) cu[begun] = int32_t(all);
    });
    // The last of the first `clouds` and one numbers that is not above `at`.
    const auto last_of = [=] __device__(const auto* numbers, int64_t at) {
      int64_t b = 0, most = clouds;
      while (b < most) {
        const int64_t middle = (b + most + 1) / 2;
        if (numbers[middle] <= at) b = middle;
        else most = middle - 1;
      }
      return b;
    };
    for_each(all, ctx, [=] __device__(int64_t place) {
      const int64_t b = last_of(starts, place);
      const int64_t at = place - starts[b], count = (b < clouds ? firsts[b + 1] : cells) - firsts[b], from = b < clouds && count > patch && at >= count ? at - patch : at;
      const bool cell = from < count && (b < clouds || !mask);
      padded[place] = cell ? rows[firsts[b] + from] : 0;
      if (place < masked) mask[place] = cell ? 0 : -HUGE_VALF;
    });
    for_each(cells, ctx, [=] __device__(int64_t t) {
      const int64_t b = last_of(firsts, ranks[t]);
      places[t] = b == clouds && mask ? 0 : int32_t(starts[b] + ranks[t] - firsts[b]);
    });
  }
};
FK_OP(attention_patches, AttentionPatches);

struct SegmentReduce : Plain<fk::segment_reduce> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), out = ref(a.out);
    const int32_t *rows = fk::data<int32_t>(a.rows), *offsets = fk::data<int32_t>(a.offsets);
    const int64_t width = init.size;
    const bool mean = init.reduce == 1;
    for_each(a.out->shape[0] * width, ctx, [=] __device__(int64_t i) {
      const int64_t b = i / width, c = i % width, first = offsets[b], last = offsets[b + 1];
      double sum = 0;
      for (int64_t j = first; j < last; ++j) {
        const double v = load(x, rows[j] * width + c);
        if (mean) sum += v / double(last - first);
        else sum = j == first || !(v <= sum) ? v : sum;
      }
      store(out, i, sum);
    });
  }
};
FK_OP(segment_reduce, SegmentReduce);

struct NeighborTable : Plain<fk::neighbor_table> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int32_t *pairs = fk::data<int32_t>(a.pairs), *counts = fk::data<int32_t>(a.pair_counts);
    int32_t* table = fk::data<int32_t>(a.table);
    const int64_t most = a.pairs->shape[1], outputs = init.num_outputs;
    for_each(a.pairs->shape[0] * outputs, ctx, [=] __device__(int64_t i) { table[i] = -1; });
    for_each(a.pairs->shape[0] * most, ctx, [=] __device__(int64_t i) {
      if (i % most < counts[i / most]) atomicMax(table + i / most * outputs + pairs[2 * i + 1], pairs[2 * i]);
    });
  }
};
FK_OP(neighbor_table, NeighborTable);

struct SparseConv : Plain<fk::sparse_conv> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), weight = ref(weights.weight), bias = ref(weights.bias), out = ref(a.out);
    const int32_t* table = fk::data<int32_t>(a.table);
    const int64_t count = a.out->shape[0], outputs = init.out_channels, channels = init.in_channels, taps = init.kernel_volume;
    for_each(count * outputs, ctx, [=] __device__(int64_t i) {
      const int64_t t = i / outputs, o = i % outputs;
      double sum = load_or(bias, o, 0);
      for (int64_t k = 0; k < taps; ++k) {
        const int64_t from = table[k * count + t];
        if (from < 0) continue;
        for (int64_t c = 0; c < channels; ++c) sum += load(x, from * channels + c) * load(weight, (o * taps + k) * channels + c);
      }
      store(out, i, sum);
    });
  }
};
FK_OP(sparse_conv, SparseConv);

}  // namespace
