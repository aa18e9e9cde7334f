// SPDX-License-Identifier: Apache-2.0
// A ring of stages in shared memory which a producer fills by TMA and wgmma empties.
#pragma once
#include "cluster.cuh"
#include "tma.cuh"
#include "wgmma.cuh"

namespace fkc {

// In shared memory from `base` on stand 8 mbarriers of full stages, then 8 of empty stages. The
// kernel's own barriers may follow, up to kFirst bytes, and then the stages. Producer and consumers
// have a copy of this struct each, as their places in the ring differ.
template <int kCount, int kFirst, int kBytes, int kBlocksOfRing = 1>
struct StageRing {
  static constexpr int kStages = kCount, kStage = kBytes, kBlocks = kBlocksOfRing;
  static_assert(kStages <= 8 && kFirst >= 128);
  uint32_t base;
  int stage = 0, turn = 0;
  __device__ uint32_t full() const { return base + stage * 8; }
  __device__ uint32_t empty(int of) const { return base + 64 + of * 8; }
  __device__ uint32_t at() const { return base + kFirst + stage * kStage; }
  __device__ void next() {
    if (++stage == kStages) stage = 0, ++turn;
  }
  // By one thread, before a barrier of all threads. `consumers`: warps of one block which release()
  // stages.
  __device__ void init(int consumers) const {
    for (int i = 0; i < kStages; ++i)
      mbarrier_init(base + i * 8, 1), mbarrier_init(empty(i), kBlocks * consumers);
  }
  // By the producer, from the second turn on.
  __device__ void wait_empty(int of) const { mbarrier_wait(empty(of), (turn - 1) & 1); }
  // By consumers.
  __device__ void wait_full() const { mbarrier_wait(full(), turn & 1); }
  // By each warp which has read a stage. kBlocks blocks of the cluster fill it for each other.
  __device__ void release(int of) const {
    const int lane = threadIdx.x % 32;
    if constexpr (kBlocks == 1) {
      if (lane == 0) mbarrier_arrive(empty(of));
    } else if (lane < kBlocks) {
      mbarrier_arrive_remote_unordered(map_shared_rank(empty(of), lane));
    }
  }
};

// A producer's loads: more() until all is loaded, next(), load_weight(), load_x(), acquire() to
// wait for an empty stage. Weights do not depend on the kernel before, so the first turn of the
// ring loads them before x exists.
template <class Loads>
__device__ void load_first_weights(Loads loads) {
  for (; loads.more() && loads.ring.turn == 0; loads.next()) loads.load_weight();
}
// The rest, when x exists: x of the first turn, and then both.
template <class Loads>
__device__ void load_rest(Loads& loads) {
  for (; loads.more() && loads.ring.turn == 0; loads.next()) loads.load_x();
  for (; loads.more(); loads.next()) {
    loads.acquire();
    loads.load_weight();
    loads.load_x();
  }
}

// By a warpgroup: acc = left * right^T over K, 64 rows by kN columns. A stage has 16 * kSteps
// elements of K; left(at) and right(at) are the addresses of the operands in the stage at `at`. `k`
// counts to `end` in units of kUnit for each stage. A stage is released when the products of the
// next one are under way.
template <class T, int kN, int kSteps, int kUnit, class Ring, int kSums, class Left, class Right>
__device__ void wgmma_mainloop(float (&acc)[kSums], Ring& ring, int end, Left left_of,
                               Right right_of) {
  int last = -1;
  for (int k = 0; k < end; k += kUnit) {
    ring.wait_full();
    const uint64_t left = wgmma_descriptor(left_of(ring.at())),
                   right = wgmma_descriptor(right_of(ring.at()));
    wgmma_fence(acc);
#pragma unroll
    for (int i = 0; i < kSteps; ++i) wgmma<T, kN>(acc, left + i * 2, right + i * 2, k + i > 0);
    wgmma_commit();
    wgmma_wait<1>();
    if (last >= 0) ring.release(last);
    last = ring.stage;
    ring.next();
  }
  wgmma_wait<0>(acc);
  ring.release(last);
}

}  // namespace fkc
