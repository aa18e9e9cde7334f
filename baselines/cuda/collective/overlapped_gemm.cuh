// SPDX-License-Identifier: Apache-2.0
// x @ weight^T by tiles of 128 rows of x and 256 columns on wgmma, for kernels whose other warps
// communicate with other ranks. Blocks are persistent. A cluster of two blocks has a pair of tiles,
// one below the other. Each block loads its rows of x and half of the weights for both (TMA
// multicast).
//   warps 0-7    two warpgroups, 64 rows each: wgmma.m64n256k16, both operands in shared memory
//   warp 8       fills a ring of stages of 64 elements of K with TMA
//   warps 9-11   the kernel's own
#pragma once
#include "../parts/op.cuh"
#include "../parts/peer.cuh"
#include "../parts/pipeline.cuh"
#include "../parts/tensor_map.cuh"
#include "overlap.hpp"
#include "ranks.cuh"

namespace fkc::overlap {

constexpr int kDeep = 64, kConsumers = 256, kThreads = 384, kTalkers = 64, kBarriers = 1024;
constexpr int kBytesX = kHigh * kDeep * 2, kBytesWeight = kWide * kDeep * 2, kStage = kBytesX + kBytesWeight;
// Registers of a thread of the two warpgroups which multiply, and of the third. A block has the
// registers of its launch, 168 for each of 384 threads. A warpgroup which asks for more than the
// others have given up waits for ever.
constexpr int kRegistersMultiply = 192, kRegistersElse = 120;
static_assert(2 * kRegistersMultiply + kRegistersElse <= 3 * 168);
constexpr int shared_bytes(int stages, bool tile) { return 1024 + kBarriers + stages * kStage + (tile ? kTileBytes : 0); }  // 1024: alignment

// A barrier of two neighbouring communication warps.
__device__ inline void talkers_sync() {
  __syncwarp();
  named_barrier_sync(1 + int(threadIdx.x) / kTalkers, kTalkers);
}
__device__ inline int block_in_cluster() { return int(blockIdx.x & 1); }

// The progress of calls, at the head of a rank's own memory.
struct State {
  uint32_t call;               // calls which this rank has done
  uint32_t blocks;             // blocks which are done with this call
  uint32_t taken[kMostRanks];  // calls which the others have done
  uint32_t jobs;               // jobs of this call which warps have taken
};
static_assert(sizeof(State) <= Room::kHead && sizeof(State) <= RowRoom::kHead);

__device__ inline State* state_of(const Ranks& ranks, int rank) { return reinterpret_cast<State*>(ranks.at[rank]); }
__device__ inline uint32_t* number_at(const Ranks& ranks, int rank, int64_t at) { return reinterpret_cast<uint32_t*>(ranks.at[rank] + at); }
__device__ inline uint4* box_at(const Ranks& ranks, int rank, int64_t at) { return reinterpret_cast<uint4*>(ranks.at[rank] + at); }

__device__ inline uint32_t calls_done(const Ranks& ranks) { return *static_cast<volatile uint32_t*>(&state_of(ranks, ranks.rank)->call); }

// The end of a block, by all its threads. The last block of a call counts the call, and tells all
// ranks. No block of a cluster ends while the other one may still arrive at its barriers.
__device__ inline void leave(const Ranks& ranks) {
  __syncwarp();
  __syncthreads();
  if (threadIdx.x == 0) {
    State* mine = state_of(ranks, ranks.rank);
    __threadfence_system();
    if (atomicAdd(&mine->blocks, 1u) + 1 == gridDim.x) {
      __threadfence_system();
      const uint32_t done = mine->call + 1;
      mine->blocks = mine->jobs = 0;
      mine->call = done;
      for (int r = 0; r < ranks.size; ++r)
        if (r != ranks.rank) store_release(&state_of(ranks, r)->taken[ranks.rank], done);
    }
  }
  __syncwarp();
  cluster_sync();
}

// A stage is full when both halves of its weights and the rows of x have arrived, and empty when
// both blocks have read it. The other block's half arrives in this block too.
template <int kCount> using Ring = StageRing<kCount, kBarriers, kStage, 2>;

// The pairs of a cluster. Both blocks see the same pairs, even if the lower block has no rows.
template <Order kOrder> struct Pairs {
  const Plan& plan;
  int me, at = int(blockIdx.x / 2);
  Pair pair{};
  __device__ Pairs(const Plan& p, int rank) : plan(p), me(rank) {}
  // Finds the first pair with rows, from `at` on.
  __device__ bool find() {
    for (; at < plan.pairs(); at += int(gridDim.x / 2)) {
      pair = plan.pair<kOrder>(at, me);
      if (plan.there(pair)) return true;
    }
    return false;
  }
  __device__ bool next() {
    at += int(gridDim.x / 2);
    return find();
  }
  __device__ int slot() const { return plan.slot(pair, block_in_cluster()); }
};

// The producer's loads, by a whole warp, whose first lane copies. `rows` is the source of x. It has
// begin() for the end of the previous kernels, wait(pair) for the rows of a pair, and copy(...) for
// a box of them.
template <int kStages, Order kOrder, class Rows> struct Loads {
  const CUtensorMap& weight;
  Rows& rows;
  const int k_all;
  Ring<kStages> ring;
  Pairs<kOrder> pairs;
  int k = 0;
  bool found = pairs.find();

  __device__ bool more() const { return found; }
  __device__ void next() {
    ring.next();
    if ((k += kDeep) < k_all) return;
    k = 0, found = pairs.next();
  }
  __device__ void acquire() const { ring.wait_empty(ring.stage); }
  __device__ void load_weight() const {
    if (threadIdx.x % 32) return;
    const int half = block_in_cluster();
    mbarrier_arrive_expect_tx(ring.full(), kStage);
    // To the same place in both blocks. The mbarriers of both count it.
    tma_load_2d_multicast(ring.at() + kBytesX + half * (kBytesWeight / 2), weight, k, pairs.pair.wide * kWide + half * (kWide / 2), ring.full(), 3);
  }
  __device__ void load_x() const {
    if (k == 0) rows.wait(pairs.pair);
    if (threadIdx.x % 32 == 0) rows.copy(ring.at(), k, pairs.pair, ring.full());
    __syncwarp();
  }
  __device__ void run() {
    load_first_weights(*this);
    inputs_then_next();
    rows.begin();
    load_rest(*this);
  }
};

// By the two warpgroups: the sums of 64 rows each.
template <class T, int kStages> __device__ void multiply_tile(float (&acc)[kWide / 2], Ring<kStages>& ring, int k_all) {
  const int group = int(threadIdx.x) / 128;
  wgmma_mainloop<T, kWide, kDeep / 16, kDeep>(acc, ring, k_all, [&](uint32_t at) { return at + group * (kBytesX / 2); }, [](uint32_t at) { return at + kBytesX; });
}

// f(row of the tile, group of eight columns, the elements) for all sums of a thread. Four lanes
// have 64 bytes of a row.
template <class T, class F> __device__ void each_eighth(const float (&acc)[kWide / 2], F f) {
  const int lane = threadIdx.x % 32, row = int(threadIdx.x) / 32 * 16 + lane / 4;
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int g = 0; g < kWide / 32; ++g) {
      uint32_t two[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) two[i] = pack2<T>(acc[(g * 4 + i) * 4 + half * 2], acc[(g * 4 + i) * 4 + half * 2 + 1]);
      transpose_quad(two);
      f(row + half * 8, g * 4 + lane % 4, uint4{two[0], two[1], two[2], two[3]});
    }
}

// Dense rows of k elements. A box is 128 of them.
inline CUtensorMap map_of(const void* data, bool bf16, int64_t rows, int64_t k) {
  return tensor_map<2>(data, bf16, {uint64_t(k), uint64_t(rows)}, {uint64_t(k) * 2}, {kDeep, kHigh});
}

// The reason for a refusal, or null. Fewer rows are bound by reading weights, and a one-shot sum is
// as fast.
inline const char* refusal(int64_t rows, int64_t n, int64_t k) {
  if (rows < 256) return "fewer than 256 rows: one after the other is as fast";
  if (n % 8 || k % 8) return "features: multiples of 8 only";
  if (rows >= 1 << 24 || n >= 1 << 24 || k >= 1 << 24) return "sizes below 2^24 only";
  return nullptr;
}

// The number of clusters of two blocks which run at once. All clusters of a kernel have to, as they
// wait for each other through other ranks.
template <class Kernel> int clusters_at_once(Kernel kernel, int shared) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared), "shared memory");
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {2, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(unsigned(sm_count() / 2 * 2));
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = size_t(shared);
  config.attrs = &cluster;
  config.numAttrs = 1;
  int count = 0;
  check(cudaOccupancyMaxActiveClusters(&count, kernel, &config), "clusters");
  if (count < 1) throw std::runtime_error("no room for a cluster of two blocks");
  return count;
}

}  // namespace fkc::overlap
