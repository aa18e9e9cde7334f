// SPDX-License-Identifier: Apache-2.0
// linear_all_reduce and linear_reduce_scatter of two ranks. The other rank's tiles are multiplied
// first and sent to it. While this rank multiplies an own tile, the other's share is loaded to the
// shared memory in which the tile will stand. The warps which multiply add the share. So no sum is
// read back from memory.
//   warps 0-7     write the other's tiles to shared memory; sums of own tiles go there and to out
//   warp 9        sends both by TMA, and loads shares before sums
//   warps 10, 11  for all_reduce, take the other's sums
//
// There is no deadlock. The other's tiles wait for nothing of this call. Own tiles wait for the
// other's tiles, and taking waits for own tiles.
#pragma once
#include "../parts/cluster.cuh"
#include "../parts/op.cuh"
#include "../parts/peer.cuh"
#include "../parts/tma.cuh"
#include "../parts/wgmma.cuh"
#include "linear_sum.cuh"

namespace fkc::overlap {

// The place of a tile. `room`: it is free, and has the other's share before a sum. `full`: all
// warps have written the tile.
struct Passing {
  uint32_t room, full, tile;
};

template <class T, bool kAll>
__device__ void multiply_halves(Ring<kStages> ring, const Passing& passing, const Arguments<T>& a,
                                int me) {
  Pairs<Order::kHalves> pairs(a.plan, me);
  int count = 0;
  for (bool more = pairs.find(); more; more = pairs.next(), ++count) {
    float acc[kWide / 2] = {};
    multiply_tile<T>(acc, ring, a.k);
    const int slot = pairs.slot(), part = pairs.pair.part;
    mbarrier_wait(passing.room, count & 1);
    if (part != me) {
      each_eighth<T>(acc, [&](int row, int eighth, uint4 word) {
        store_shared(passing.tile + word_of(row, eighth) * 16, word);
      });
    } else {
      const int rows = a.plan.tile_rows(me, slot), column = a.plan.first_column(slot);
      T* const out =
          a.out + int64_t(a.plan.first_row(slot) + (kAll ? a.plan.begin(me) : 0)) * a.n + column;
      each_eighth<T>(acc, [&](int row, int eighth, uint4 word) {
        if (row >= rows) return;
        const uint32_t at = passing.tile + word_of(row, eighth) * 16;
        auto sum = Elements<T, uint4>::of(word);
        sum.add(load_shared(at), FK_SUM);  // the order of two terms does not matter
        const uint4 packed = sum.word();
        if constexpr (kAll) store_shared(at, packed);
        if (column + eighth * 8 < a.n)
          *reinterpret_cast<uint4*>(out + int64_t(row) * a.n + eighth * 8) = packed;
      });
    }
    fence_proxy_async_shared();
    __syncwarp();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(passing.full);
  }
}

// By one thread.
template <class T, bool kAll>
__device__ void pass_tiles(const Passing& passing, const Arguments<T>& a, const Ranks& ranks) {
  const int me = ranks.rank, other = 1 - me;
  grid_dependency_wait();
  const uint32_t call = calls_done(ranks);
  wait_until(&state_of(ranks, me)->taken[other], call);
  const auto tell = [&](int64_t number) {
    fence_proxy_async();
    __threadfence_system();
    store_release(number_at(ranks, other, number), call + 1);
  };
  Pairs<Order::kHalves> pairs(a.plan, me);
  int count = 0;
  for (bool more = pairs.find(); more; more = pairs.next(), ++count) {
    const int slot = pairs.slot(), part = pairs.pair.part, rows = a.plan.tile_rows(part, slot);
    if (part == me && rows > 0) {
      wait_until(number_at(ranks, me, a.room.shared_number(other, slot)), call + 1);
      fence_proxy_async();  // the other rank wrote it, TMA reads it
      mbarrier_arrive_expect_tx(passing.room, rows * kRowBytes);
      bulk_load(passing.tile, ranks.at[me] + a.room.shared(other, slot), rows * kRowBytes,
                passing.room);
    } else {
      mbarrier_arrive(passing.room);
    }
    mbarrier_wait(passing.full, count & 1);
    if (part != me) {
      if (rows > 0)
        bulk_store(ranks.at[other] + a.room.shared(me, slot), passing.tile, rows * kRowBytes);
      bulk_store_commit();
      bulk_store_wait();
      tell(a.room.shared_number(me, slot));
    } else if (kAll) {
      constexpr int kBytes = kSliceRows * kRowBytes;
      for (int slice = 0; slice < kSlices; ++slice) {
        const int of = a.plan.slice_rows(me, slot, slice);
        if (of > 0)
          bulk_store(ranks.at[other] + a.room.summed(me, slot) + slice * kBytes,
                     passing.tile + slice * kBytes, of * kRowBytes);
        bulk_store_commit();
      }
      static_assert(kSlices == 4, "so many groups");
      bulk_store_wait<3>(), tell(a.room.summed_number(me, slot, 0));
      bulk_store_wait<2>(), tell(a.room.summed_number(me, slot, 1));
      bulk_store_wait<1>(), tell(a.room.summed_number(me, slot, 2));
      bulk_store_wait<0>(), tell(a.room.summed_number(me, slot, 3));
    }
  }
}

// By warps 10 and 11: takes the other's sums, slice by slice as they arrive. Its tiles are those of
// the block with this block's number.
template <class T>
__device__ void take_sums(const Arguments<T>& a, const Ranks& ranks) {
  const int me = ranks.rank, other = 1 - me, thread = int(threadIdx.x) % kTalkers;
  grid_dependency_wait();
  const uint32_t number = calls_done(ranks) + 1;
  Pairs<Order::kHalves> pairs(a.plan, other);
  for (bool more = pairs.find(); more; more = pairs.next()) {
    if (pairs.pair.part != other) continue;
    const int slot = pairs.slot(), column = a.plan.first_column(slot);
    T* const out = a.out + int64_t(a.plan.begin(other) + a.plan.first_row(slot)) * a.n + column;
    const uint4* const box = box_at(ranks, me, a.room.summed(other, slot));
    for (int slice = 0; slice < kSlices; ++slice) {
      constexpr int kFew =
          kSliceRows * kRowWords / kTalkers;  // words of a thread: one trip for a slice
      const int first = slice * kSliceRows * kRowWords + thread,
                end = first - thread + a.plan.slice_rows(other, slot, slice) * kRowWords;
      if (first - thread == end) break;
      if (thread == 0)
        wait_until(number_at(ranks, me, a.room.summed_number(other, slot, slice)), number);
      talkers_sync();
      uint4 words[kFew];
#pragma unroll
      for (int k = 0; k < kFew; ++k)
        if (first + k * kTalkers < end) words[k] = __ldcg(box + first + k * kTalkers);
#pragma unroll
      for (int k = 0; k < kFew; ++k) {
        const int word = first + k * kTalkers, eighth = eighth_of(word) * 8;
        if (word < end && column + eighth < a.n)
          *reinterpret_cast<uint4*>(out + int64_t(row_of(word)) * a.n + eighth) = words[k];
      }
    }
  }
}

template <class T, bool kAll>
__global__ void __launch_bounds__(kThreads, 1)
    linear_sum_of_two(const __grid_constant__ CUtensorMap x,
                      const __grid_constant__ CUtensorMap weight,
                      const __grid_constant__ Arguments<T> a, const __grid_constant__ Ranks ranks) {
  char* const shared = dynamic_shared();
  const Ring<kStages> ring{(shared_address(shared) + 1023) & ~1023U};
  const Passing passing{ring.base + 128, ring.base + 136, ring.base + kBarriers + kStages * kStage};
  const int warp = int(threadIdx.x) / 32;
  if (threadIdx.x == 0) {
    ring.init(kConsumers / 32);
    mbarrier_init(passing.room, 1);
    mbarrier_init(passing.full, kConsumers / 32);
    fence_mbarrier_init();
  }
  cluster_sync();
  if (warp < 8) {
    warpgroup_reg_alloc<kRegistersMultiply>();
    grid_dependency_wait();  // the previous kernel may still read out
    multiply_halves<T, kAll>(ring, passing, a, ranks.rank);
  } else {
    warpgroup_reg_dealloc<kRegistersElse>();
    if (warp == 8) {
      OwnRows rows{x, a.plan};
      Loads<kStages, Order::kHalves, OwnRows>{weight, rows, a.k, ring,
                                               Pairs<Order::kHalves>(a.plan, ranks.rank)}
          .run();
    } else if (warp == 9) {
      if (threadIdx.x % 32 == 0) pass_tiles<T, kAll>(passing, a, ranks);
    } else if (kAll) {
      take_sums(a, ranks);
    }
  }
  leave(ranks);
}

}  // namespace fkc::overlap
