// SPDX-License-Identifier: Apache-2.0
// all_gather_linear in one kernel. Two warps of every block send this rank's rows to the others,
// some at a time. Meanwhile the other warps multiply tiles of this rank's own rows
// (overlapped_gemm.cuh). Tiles of the others' rows follow as they arrive (overlap.hpp).
//   warps 10, 11  send rows, and messages about them
//
// Calls use two boxes in turn. A sender waits until the reader is done with the call before the
// last one.
#include "../parts/cluster.cuh"
#include "../parts/op.cuh"
#include "../parts/peer.cuh"
#include "../parts/tensor_map.cuh"
#include "../parts/tma.cuh"
#include "../parts/wgmma.cuh"
#include "fk/ops/all_gather_linear.h"
#include "overlapped_gemm.cuh"

namespace {
using namespace fkc;
using namespace fkc::overlap;

constexpr int kStages = 4, kShared = shared_bytes(kStages, false);

template <class T> struct Arguments {
  const uint4* x;
  T* out;
  int n, k;
  Plan plan;
  RowRoom room;
};

// This rank's rows are read in place, the others' rows from their boxes.
struct GatheredRows {
  const CUtensorMap &own, &boxes;
  const Plan& plan;
  const RowRoom& room;
  const Ranks& ranks;
  uint32_t call = 0;
  __device__ void begin() { call = calls_done(ranks); }
  __device__ int first(const Pair& pair) const { return pair.high * kPair + block_in_cluster() * kHigh; }
  __device__ void wait(const Pair& pair) const {
    if (pair.part == ranks.rank) return;
    const int unit = first(pair) / kUnitRows + int(threadIdx.x) % 32;
    static_assert(kUnits == 32, "a lane each");
    if (unit < plan.units()) wait_until(number_at(ranks, ranks.rank, room.number(pair.part, unit)), call + 1);
    __syncwarp();
    fence_proxy_async();  // other ranks wrote it, TMA reads it
  }
  __device__ void copy(uint32_t to, int k, const Pair& pair, uint32_t barrier) const {
    if (pair.part == ranks.rank) return tma_load_2d(to, own, k, first(pair), barrier);
    tma_load_3d(to, boxes, k, plan.begin(pair.part) + first(pair), int(call % 2), barrier);
  }
};

// By warps 10 and 11.
template <class T> __device__ void send_rows(const Arguments<T>& a, const Ranks& ranks) {
  const int me = ranks.rank, thread = int(threadIdx.x) % kTalkers, row_words = a.k / 8;
  const uint32_t call = calls_done(ranks);
  if (thread < ranks.size && thread != me) wait_until(&state_of(ranks, me)->taken[thread], call - 1);
  talkers_sync();
  for (int i = int(blockIdx.x); i < a.plan.sends(); i += int(gridDim.x)) {
    const int unit = a.plan.send_unit(i), to = a.plan.send_to(i, me), first = unit * kUnitRows;
    const int words = between(0, a.plan.part - first, kUnitRows) * row_words;
    const uint4* from = a.x + int64_t(first) * row_words;
    uint4* there = box_at(ranks, to, a.room.box(call % 2)) + int64_t(me * a.plan.part + first) * row_words;
    constexpr int kFew = 8;
    for (int w = thread; w < words; w += kTalkers * kFew) {
      uint4 few[kFew];
#pragma unroll
      for (int k = 0; k < kFew; ++k)
        if (w + k * kTalkers < words) few[k] = __ldcg(from + w + k * kTalkers);
#pragma unroll
      for (int k = 0; k < kFew; ++k)
        if (w + k * kTalkers < words) there[w + k * kTalkers] = few[k];
    }
    talkers_sync();
    if (thread == 0) {
      __threadfence_system();
      store_release(number_at(ranks, to, a.room.number(me, unit)), call + 1);
    }
  }
}

template <class T> __device__ void multiply_tiles(Ring<kStages> ring, const Arguments<T>& a, int me) {
  Pairs<Order::kGathered> pairs(a.plan, me);
  for (bool more = pairs.find(); more; more = pairs.next()) {
    float acc[kWide / 2] = {};
    multiply_tile<T>(acc, ring, a.k);
    const int slot = pairs.slot(), rows = a.plan.tile_rows(pairs.pair.part, slot), first = a.plan.begin(pairs.pair.part) + a.plan.first_row(slot);
    each_eighth<T>(acc, [&](int row, int eighth, uint4 word) {
      const int column = a.plan.first_column(slot) + eighth * 8;
      if (row < rows && column < a.n) *reinterpret_cast<uint4*>(a.out + int64_t(first + row) * a.n + column) = word;
    });
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads, 1)
    gather_linear(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap boxes, const __grid_constant__ CUtensorMap weight,
                  const __grid_constant__ Arguments<T> a, const __grid_constant__ Ranks ranks) {
  char* const shared = dynamic_shared();
  const Ring<kStages> ring{(shared_address(shared) + 1023) & ~1023U};
  const int warp = int(threadIdx.x) / 32;
  if (threadIdx.x == 0) {
    ring.init(kConsumers / 32);
    fence_mbarrier_init();
  }
  cluster_sync();
  if (warp < 8) {
    warpgroup_reg_alloc<kRegistersMultiply>();
    grid_dependency_wait();  // the previous kernel may still read out
    multiply_tiles<T>(ring, a, ranks.rank);
  } else {
    warpgroup_reg_dealloc<kRegistersElse>();
    if (warp == 8) {
      GatheredRows rows{x, boxes, a.plan, a.room, ranks};
      Loads<kStages, Order::kGathered, GatheredRows>{weight, rows, a.k, ring, Pairs<Order::kGathered>(a.plan, ranks.rank)}.run();
    } else if (warp >= 10) {
      grid_dependency_wait();
      send_rows(a, ranks);
    }
  }
  leave(ranks);
}

struct AllGatherLinear : Base<fk::all_gather_linear> {
  using Base::Base;
  static RowRoom room_of(int64_t part, const op::init& init) { return {init.comm->size, int(part), int(init.in_features * 2)}; }
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max, fk_need&) {
    need_ranks(init.comm);
    need_16bit(max.x);
    need(FK_DTYPE(weights.weight) == FK_DTYPE(max.x), "weight: the dtype of x only");
    const int64_t part = max.x->shape[0];
    need(part <= RowRoom::kPartMost, "up to 32768 rows of a rank");
    if (const char* why = refusal(part * init.comm->size, init.out_features, init.in_features)) throw fk::unsupported{why};
    need(room_of(part, init).bytes() <= int64_t{1} << 30, "at most 1 GiB between ranks");
  }
  void prepare(const op::forward& max, const fk_memory&) {
    room = room_of(max.x->shape[0], init);
    shared.emplace(init.comm, room.bytes());
    weight = overlap::map_of(weights.weight->data, FK_DTYPE(max.x) == FK_BF16, init.out_features, init.in_features);
    dispatch(max.x, [&](auto type) { clusters = clusters_at_once(gather_linear<decltype(type)>, kShared); });
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t part = a.x->shape[0], k = init.in_features;
    if (part == 0) return;
    const Ranks& ranks = shared->ranks();
    const bool bf16 = FK_DTYPE(a.x) == FK_BF16;
    const Plan plan = Plan::of(int(part) * ranks.size, int(part), ranks.size, int(init.out_features));
    const CUtensorMap boxes = tensor_map<3>(ranks.at[ranks.rank] + room.box(0), bf16, {uint64_t(k), uint64_t(plan.rows), 2},
                                            {uint64_t(k) * 2, uint64_t(room.box_bytes())}, {kDeep, kHigh, 1});
    dispatch(a.x, [&](auto type) {
      using T = decltype(type);
      launch_clusters(gather_linear<T>, dim3(2), dim3(unsigned(2 * std::min(clusters, plan.pairs()))), dim3(kThreads), size_t(kShared), ctx,
                      overlap::map_of(a.x->data, bf16, part, k), boxes, weight,
                      Arguments<T>{fk::data<uint4>(a.x), fk::data<T>(a.out), int(init.out_features), int(k), plan, room}, ranks);
    });
  }

 private:
  std::optional<Shared<op>> shared;
  RowRoom room{};
  CUtensorMap weight{};
  int clusters = 0;
};
FK_OP(all_gather_linear, AllGatherLinear);

}  // namespace
