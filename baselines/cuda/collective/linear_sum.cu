// SPDX-License-Identifier: Apache-2.0
// linear_all_reduce and linear_reduce_scatter in one kernel. While tiles are multiplied
// (overlapped_gemm.cuh), ready tiles are sent to the rank which owns their rows. This rank adds
// them and, for all_reduce, sends the sum to all (overlap.hpp). As with separate kernels, every
// rank's share is rounded once, and shares are added in float32 in the order of ranks. Two ranks
// have another kernel for short K (linear_sum_of_two.cuh).
//   warp 9        sends tiles from shared memory by TMA, and messages about them
//   warps 10, 11  add, and take the sums of other ranks; warps which have multiplied all their tiles help
//
// Boxes are as large as the largest call, so no rank waits for room within a call. The next call
// overwrites them. A share is sent only after its owner has said that it is done with the previous
// call (`taken`). A sum is sent only after a share of this call has come from the receiver, which
// is then done with the previous call too.
#include "../parts/cluster.cuh"
#include "../parts/op.cuh"
#include "../parts/peer.cuh"
#include "../parts/tma.cuh"
#include "../parts/wgmma.cuh"
#include "fk/ops/linear_all_reduce.h"
#include "fk/ops/linear_reduce_scatter.h"
#include "linear_sum_of_two.cuh"

namespace {
using namespace fkc;
using namespace fkc::overlap;

// A tile which waits to be sent. `full`: all warps have written it. `free`: TMA has read it.
struct Outgoing {
  uint32_t full, free, tile;
};

template <class T> __device__ void multiply_tiles(Ring<kStages> ring, const Outgoing& outgoing, const Arguments<T>& a, int me) {
  Pairs<Order::kLevels> pairs(a.plan, me);
  int count = 0;
  for (bool more = pairs.find(); more; more = pairs.next(), ++count) {
    float acc[kWide / 2] = {};
    multiply_tile<T>(acc, ring, a.k);
    if (count > 0) mbarrier_wait(outgoing.free, (count - 1) & 1);
    each_eighth<T>(acc, [&](int row, int eighth, uint4 word) {
      store_shared(outgoing.tile + word_of(row, eighth) * 16, word);
    });
    fence_proxy_async_shared();
    __syncwarp();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(outgoing.full);
  }
}

// By one thread.
template <class T> __device__ void send_tiles(const Outgoing& outgoing, const Arguments<T>& a, const Ranks& ranks) {
  const int me = ranks.rank;
  grid_dependency_wait();
  const uint32_t call = calls_done(ranks);
  for (int r = 0; r < ranks.size; ++r)
    if (r != me) wait_until(&state_of(ranks, me)->taken[r], call);
  Pairs<Order::kLevels> pairs(a.plan, me);
  int count = 0;
  for (bool more = pairs.find(); more; more = pairs.next(), ++count) {
    const int slot = pairs.slot(), owner = pairs.pair.part, rows = a.plan.tile_rows(owner, slot);
    mbarrier_wait(outgoing.full, count & 1);
    if (rows > 0) bulk_store(ranks.at[owner] + a.room.shared(me, slot), outgoing.tile, rows * kRowBytes);
    bulk_store_commit();
    bulk_store_wait_read();
    mbarrier_arrive(outgoing.free);
    bulk_store_wait();
    fence_proxy_async();
    __threadfence_system();
    store_release(number_at(ranks, owner, a.room.shared_number(me, slot)), call + 1);
  }
}

// By two warps, with a row of a tile each. A lane has a word of it.
template <class T, bool kAll, int kMost> struct Talkers {
  static constexpr int kSeveral = 8 / kMost, kStep = kTalkers * kSeveral;  // loads in flight of a thread; words of all threads
  const Arguments<T>& a;
  const Ranks& ranks;
  uint32_t jobs_at;  // in shared memory: the warps' job
  uint32_t number;   // the number of this call

  // The place in out of a word of a slice.
  __device__ T* place(const Job& job, int word) const {
    const int row = a.plan.first_row(job.slot) + row_of(word) + (kAll ? a.plan.begin(job.part) : 0);
    return a.out + int64_t(row) * a.n + column(job, word);
  }
  __device__ int column(const Job& job, int word) const { return a.plan.first_column(job.slot) + eighth_of(word) * 8; }

  __device__ void add(const Job& job, int first, int count) const {
    const int me = ranks.rank, thread = int(threadIdx.x) % kTalkers;
    if (thread < ranks.size) wait_until(number_at(ranks, me, a.room.shared_number(thread, job.slot)), number);
    talkers_sync();
    const int64_t apart = a.room.shared(1, 0) - a.room.shared(0, 0), sums = a.room.summed(me, job.slot);
    for (int i = first + thread; i < first + count; i += kStep) {
      const char* from = ranks.at[me] + a.room.shared(0, job.slot) + int64_t(i) * 16;
      uint4 all[kSeveral][kMost];
#pragma unroll
      for (int r = 0; r < kMost; ++r) {
        if (r >= ranks.size) continue;
#pragma unroll
        for (int k = 0; k < kSeveral; ++k)
          if (i + k * kTalkers < first + count) all[k][r] = __ldcg(reinterpret_cast<const uint4*>(from) + k * kTalkers);
        from += apart;
      }
#pragma unroll
      for (int k = 0; k < kSeveral; ++k) {
        const int word = i + k * kTalkers;
        if (word >= first + count) continue;
        auto sum = Elements<T, uint4>::of(all[k][0]);
#pragma unroll
        for (int r = 1; r < kMost; ++r)
          if (r < ranks.size) sum.add(all[k][r], FK_SUM);
        const uint4 packed = sum.word();
        if (column(job, word) < a.n) *reinterpret_cast<uint4*>(place(job, word)) = packed;
        if constexpr (kAll)
          for (int j = 1; j < ranks.size; ++j) box_at(ranks, me + j < ranks.size ? me + j : me + j - ranks.size, sums)[word] = packed;
      }
    }
    if constexpr (kAll) {
      talkers_sync();
      if (thread >= ranks.size || thread == me) return;
      __threadfence_system();
      store_release(number_at(ranks, thread, a.room.summed_number(me, job.slot, job.slice)), number);
    }
  }
  __device__ void take(const Job& job, int first, int count) const {
    const int thread = int(threadIdx.x) % kTalkers;
    if (thread == 0) wait_until(number_at(ranks, ranks.rank, a.room.summed_number(job.part, job.slot, job.slice)), number);
    talkers_sync();
    constexpr int kFew = 8;
    const uint4* from = box_at(ranks, ranks.rank, a.room.summed(job.part, job.slot));
    for (int i = first + thread; i < first + count; i += kTalkers * kFew) {
      uint4 words[kFew];
#pragma unroll
      for (int k = 0; k < kFew; ++k)
        if (i + k * kTalkers < first + count) words[k] = __ldcg(from + i + k * kTalkers);
#pragma unroll
      for (int k = 0; k < kFew; ++k) {
        const int word = i + k * kTalkers;
        if (word < first + count && column(job, word) < a.n) *reinterpret_cast<uint4*>(place(job, word)) = words[k];
      }
    }
  }
  // Warps take jobs in order, and take the next one only when the one before is done. So the first
  // job which is not done has a warp working on it.
  __device__ void run() const {
    const int jobs = a.plan.jobs(kAll), thread = int(threadIdx.x) % kTalkers;
    const uint32_t at = jobs_at + threadIdx.x / kTalkers * 16;
    for (;;) {
      if (thread == 0) store_shared(at, uint4{atomicAdd(&state_of(ranks, ranks.rank)->jobs, 1u), 0, 0, 0});
      talkers_sync();
      const int j = int(load_shared(at).x);
      talkers_sync();
      if (j >= jobs) return;
      const Job job = a.plan.job(j, ranks.rank, kAll);
      const int first = job.slice * kSliceRows * kRowWords, count = a.plan.slice_rows(job.part, job.slot, job.slice) * kRowWords;
      if (count == 0) continue;
      if (job.part == ranks.rank) add(job, first, count);
      else take(job, first, count);
    }
  }
};

template <class T, bool kAll, int kMost>
__global__ void __launch_bounds__(kThreads, 1)
    linear_sum(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap weight, const __grid_constant__ Arguments<T> a, const __grid_constant__ Ranks ranks) {
  char* const shared = dynamic_shared();
  const Ring<kStages> ring{(shared_address(shared) + 1023) & ~1023U};
  const Outgoing outgoing{ring.base + 128, ring.base + 136, ring.base + kBarriers + kStages * kStage};
  const int warp = int(threadIdx.x) / 32;
  if (threadIdx.x == 0) {
    ring.init(kConsumers / 32);
    mbarrier_init(outgoing.full, kConsumers / 32);
    mbarrier_init(outgoing.free, 1);
    fence_mbarrier_init();
  }
  cluster_sync();
  const auto talk = [&] {
    grid_dependency_wait();
    Talkers<T, kAll, kMost>{a, ranks, ring.base + kBarriers / 2, calls_done(ranks) + 1}.run();
  };
  if (warp < 8) {
    warpgroup_reg_alloc<kRegistersMultiply>();
    multiply_tiles<T>(ring, outgoing, a, ranks.rank);
    talk();
  } else {
    warpgroup_reg_dealloc<kRegistersElse>();
    if (warp == 8) {
      OwnRows rows{x, a.plan};
      Loads<kStages, Order::kLevels, OwnRows>{weight, rows, a.k, ring, Pairs<Order::kLevels>(a.plan, ranks.rank)}.run();
    } else if (warp == 9) {
      if (threadIdx.x % 32 == 0) send_tiles(outgoing, a, ranks);
    } else {
      talk();
    }
  }
  leave(ranks);
}

// Each of the two ops has a buffer of its own. Instances which share a buffer have their calls in
// the same order on all ranks.
template <class Op, bool kAll> struct LinearSum : Base<Op> {
  using Base<Op>::Base;
  static Plan plan_of(int64_t rows, const typename Op::init& init) {
    const int ranks = init.comm->size;
    const int part = kAll ? Plan::share(int(rows), ranks) : int(rows) / ranks;
    return Plan::of(int(rows), part, ranks, int(init.out_features));
  }
  static Room room_of(int64_t rows, const typename Op::init& init) { return {init.comm->size, plan_of(rows, init).slots(), kAll}; }
  static void supports(const typename Op::init& init, const typename Op::weights& weights, const typename Op::forward& max, fk_need&) {
    need_ranks(init.comm);
    need_16bit(max.x);
    need(FK_DTYPE(weights.weight) == FK_DTYPE(max.x), "weight: the dtype of x only");
    if (const char* why = refusal(max.x->shape[0], init.out_features, init.in_features)) throw fk::unsupported{why};
    need(room_of(max.x->shape[0], init).bytes() <= int64_t{1} << 30, "at most 1 GiB between ranks");
  }
  void prepare(const typename Op::forward& max, const fk_memory&) {
    const auto& init = this->init;
    room = room_of(max.x->shape[0], init);
    shared.emplace(init.comm, room.bytes());
    weight = overlap::map_of(this->weights.weight->data, FK_DTYPE(max.x) == FK_BF16, init.out_features, init.in_features);
    with_kernel(max.x, [&](auto kernel, auto) { clusters = clusters_at_once(kernel, kShared); });
  }
  void forward(const typename Op::forward& a, const fk_ctx& ctx) {
    const int64_t rows = a.x->shape[0];
    if (rows == 0) return;
    const Plan plan = plan_of(rows, this->init);
    const int blocks = 2 * std::min(clusters, plan.pairs());
    with_kernel(a.x, [&](auto kernel, auto type) {
      using T = decltype(type);
      launch_clusters(kernel, dim3(2), dim3(unsigned(blocks)), dim3(kThreads), size_t(kShared), ctx,
                      overlap::map_of(a.x->data, std::is_same_v<T, __nv_bfloat16>, rows, this->init.in_features), weight,
                      Arguments<T>{fk::data<T>(a.out), int(this->init.out_features), int(this->init.in_features), plan, room}, shared->ranks());
    });
  }

 private:
  // For two ranks, as measured. Up to this K the link is the bound, and adding tiles in shared
  // memory keeps it busy. Beyond it the product is the bound, and its warps should not add. The
  // emulation has a smaller value, so that small cases have both.
  static constexpr int64_t kShort = kDevice == FK_CUDA ? 4096 : 256;
  template <class F> void with_kernel(const fk_in* x, F f) const {
    dispatch(x, [&](auto type) {
      using T = decltype(type);
      const int ranks = this->init.comm->size;
      if (ranks == 2 && this->init.in_features <= kShort) f(linear_sum_of_two<T, kAll>, type);
      else with_most_ranks(ranks, [&](auto most) { f(linear_sum<T, kAll, decltype(most)::value>, type); });
    });
  }
  std::optional<Shared<Op>> shared;
  Room room{};
  CUtensorMap weight{};
  int clusters = 0;
};

struct LinearAllReduce : LinearSum<fk::linear_all_reduce, true> {
  using LinearSum::LinearSum;
};
struct LinearReduceScatter : LinearSum<fk::linear_reduce_scatter, false> {
  using LinearSum::LinearSum;
};
FK_OP(linear_all_reduce, LinearAllReduce);
FK_OP(linear_reduce_scatter, LinearReduceScatter);

}  // namespace
