// SPDX-License-Identifier: Apache-2.0
// all_reduce done right, through the host's collectives and over memory of the peers, for the
// attacks and controls of several ranks.
#pragma once
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "fk/cpp/floats.hpp"
#include "fk/ops/all_reduce.h"

namespace attack {

// For attacks whose values are right: what they do not skip makes them slower than the baseline.
inline void work_for_long() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(100);
  while (std::chrono::steady_clock::now() < end) {
  }
}

struct AllReduce {
  using op = fk::all_reduce;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::init& init;
  const fk_comm* comm;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    if (!init.comm) throw fk::unsupported{"there is one rank"};
    if (!fk::is_float(max.x)) throw fk::unsupported{"f32, bf16 and f16 only"};
  }
  AllReduce(const fk_host&, const op::init& i, const op::weights&) : init(i), comm(i.comm) {}
  void prepare(const op::forward&, const fk_memory&) {}

  static int64_t count(const op::forward& args) { return fk_numel(args.x); }
  void need(int32_t status) const {
    if (status != FK_OK) throw std::runtime_error(comm->error(comm));
  }
  void honest(const op::forward& args, const fk_ctx& ctx) const {
    need(comm->all_reduce(comm, args.x, args.out, init.reduction, ctx.stream));
  }
  // sum[i] = sum[i] and next[i]
  void combine(float* sum, const float* next, int64_t n) const {
    for (int64_t i = 0; i < n; ++i)
      sum[i] = init.reduction == FK_SUM   ? sum[i] + next[i]
               : init.reduction == FK_MAX ? std::max(sum[i], next[i])
                                          : std::min(sum[i], next[i]);
  }
  static std::vector<float> own(const op::forward& args) {
    std::vector<float> x(static_cast<size_t>(count(args)));
    fk::load(args.x, 0, count(args), x.data());
    return x;
  }
};

// With a float for every element in a buffer that all ranks see.
struct Peers : AllReduce {
  using AllReduce::AllReduce;
  const fk_symmetric* peers = nullptr;
  uint32_t epoch = 0;  // of this instance's calls, in step on all ranks
  void prepare(const op::forward& max, const fk_memory&) {
    need(comm->symmetric(comm, count(max) * static_cast<int64_t>(sizeof(float)), &peers));
  }
  float* of(int rank) const { return static_cast<float*>(peers->buffers[rank]); }
  void barrier(const fk_ctx& ctx) const { need(comm->barrier(comm, ctx.stream)); }
  // The first word of a rank's pad says how far it is.
  void reached(uint32_t step) const {
    std::atomic_ref<uint32_t>(peers->signals[comm->rank][0]).store(step, std::memory_order_release);
  }
  void wait_for(int rank, uint32_t step) const {
    const std::atomic_ref<uint32_t> word(peers->signals[rank][0]);
    while (static_cast<int32_t>(word.load(std::memory_order_acquire) - step) < 0) ::sched_yield();
  }
  void wait_for_all(uint32_t step) const {
    for (int r = 0; r < comm->size; ++r) wait_for(r, step);
  }
};

}  // namespace attack
