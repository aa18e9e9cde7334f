// SPDX-License-Identifier: Apache-2.0
// Shared by kernels which communicate with other ranks: symmetric memory of a communicator, and
// words with release and acquire across devices. Waits have a time limit. All instances use the
// memory in stream order.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

#include "../parts/op.cuh"
#include "../parts/peer.cuh"
#include "fk/comm_library.h"

namespace fkc {

inline constexpr int kMostRanks = 8;
inline constexpr unsigned long long kPatienceNs = 15'000'000'000ULL;  // after this time a waiting thread traps

// One buffer per rank, with addresses of this rank. A new buffer is zero.
struct Ranks {
  char* at[kMostRanks];
  int rank, size;
};

// Traps if the awaited message does not come, which ends the context.
struct Waiting {
  unsigned turns = 0;
  unsigned long long since = 0;
  __device__ void turn() {
    let_others_run();
    if (++turns % 1024) return;
    if (since == 0) since = global_timer_ns();
    else if (global_timer_ns() - since > kPatienceNs) __trap();
  }
};

// Waits until the number at `at` has reached `number`.
//
// A store by store_release() needs no fence before it. A release is cumulative. It orders the
// stores of its own thread before the number. It also orders stores of other threads which met this
// thread at a barrier (of the block, or __syncwarp) before. The scope is .sys, as is the scope of
// the peer's acquire here. So plain stores to a peer's memory have arrived when their number has.
// __threadfence_system() would be a second trip: it is a fence of sequential consistency, which no
// kernel here needs, and it empties L1. None of this holds for stores by TMA.
__device__ inline void wait_until(const uint32_t* at, uint32_t number) {
  Waiting waiting;
  while (int32_t(load_acquire(at) - number) < 0) waiting.turn();
}

// Symmetric memory which all instances of a kind share, because one stream orders the calls of a
// communicator. After the last instance has gone, the next one asks for memory again, as the host
// takes it back between two pieces of work.
template <class Kind> class Shared {
 public:
  explicit Shared(const fk_comm* comm) : Shared(comm, Kind::bytes(comm->size)) {}
  // Instances with the same number of bytes and the same layout share memory.
  Shared(const fk_comm* comm, int64_t bytes, const std::vector<int64_t>& layout = {}) {
    static std::mutex mutex;
    static std::map<std::tuple<const fk_comm*, int64_t, std::vector<int64_t>>, std::weak_ptr<const fk_symmetric>> known;
    const std::lock_guard lock(mutex);
    auto& entry = known[{comm, bytes, layout}];
    held_ = entry.lock();
    if (!held_) {
      const fk_symmetric* made = nullptr;
      if (comm->symmetric(comm, bytes, &made) != FK_OK) throw std::runtime_error(comm->error(comm));
      held_.reset(made, [](const fk_symmetric*) {});
      entry = held_;
    }
    for (int r = 0; r < comm->size; ++r) ranks_.at[r] = static_cast<char*>(held_->buffers[r]);
    ranks_.rank = comm->rank;
    ranks_.size = comm->size;
  }
  const Ranks& ranks() const { return ranks_; }

 private:
  std::shared_ptr<const fk_symmetric> held_;
  Ranks ranks_{};
};

inline void need_ranks(const fk_comm* comm) {
  need(comm, "comm: a communicator is needed");
  need(fk_comm_has_symmetric(comm), "comm: ranks on one machine only, which share memory");
  need(comm->size <= kMostRanks, "up to 8 ranks only");
}
inline void need_floats(const fk_in* view) {
  need(FK_DTYPE(view) == FK_BF16 || FK_DTYPE(view) == FK_F16 || FK_DTYPE(view) == FK_F32, "float32, float16 and bfloat16 only");
}
template <class F> void dispatch_floats(const fk_in* view, F f) {
  if (FK_DTYPE(view) == FK_F32) f(float{});
  else dispatch(view, f);
}

// f(std::integral_constant<int, n>) with the number of ranks for unrolled loops.
template <class F> void with_most_ranks(int size, F f) {
  if (size <= 2) f(std::integral_constant<int, 2>{});
  else if (size <= 4) f(std::integral_constant<int, 4>{});
  else f(std::integral_constant<int, kMostRanks>{});
}

__device__ inline float combine(float a, float b, int op) { return op == FK_SUM ? a + b : op == FK_MAX ? fmaxf(a, b) : fminf(a, b); }

// A word of memory as elements of T, widened.
template <class T, class Word> struct Elements {
  static constexpr int kCount = sizeof(Word) / sizeof(T);
  float at[kCount];
  __device__ static Elements of(Word word) {
    Elements e;
    T part[kCount];
    memcpy(part, &word, sizeof word);
#pragma unroll
    for (int k = 0; k < kCount; ++k) e.at[k] = to_float(part[k]);
    return e;
  }
  __device__ void add(Word word, int op) {
    const Elements other = of(word);
#pragma unroll
    for (int k = 0; k < kCount; ++k) at[k] = combine(at[k], other.at[k], op);
  }
  __device__ Word word() const {
    T part[kCount];
#pragma unroll
    for (int k = 0; k < kCount; ++k) part[k] = from_float<T>(at[k]);
    Word out;
    memcpy(&out, part, sizeof out);
    return out;
  }
};

}  // namespace fkc
