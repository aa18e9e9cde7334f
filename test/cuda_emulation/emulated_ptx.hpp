// SPDX-License-Identifier: Apache-2.0
// The instructions of baselines/cuda/parts for the emulation: what is asynchronous
// on a GPU has happened when the call returns. Their rules for alignment are checked.
#pragma once
#include <chrono>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "cuda.h"
#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "fk/abi.h"

namespace fkc {

inline constexpr int32_t kDevice = FK_CPU, kSmCount = 0;
inline constexpr const int32_t* kSm = nullptr;
inline constexpr int kManyThreads = 128;  // which it takes in turn

using fk_emulation::cluster;
using fk_emulation::dynamic_shared;
using fk_emulation::Machine;
using fk_emulation::machine;
using fk_emulation::refuse;

inline void launch_dependents() { machine.hurried |= !fk_emulation::fiber().waited; }
inline void grid_dependency_wait() { fk_emulation::fiber().waited = true; }
inline int32_t read_early(const int32_t* at) {
  if (!fk_emulation::fiber().waited && machine.hurried_before)
    refuse("an early read after a kernel that let this one start before it waited");
  return *at;
}
template <int kCount>
void warpgroup_reg_dealloc() {
  fk_emulation::give_registers(kCount);
}
template <int kCount>
void warpgroup_reg_alloc() {
  fk_emulation::take_registers(kCount);
}

// Addresses: a window for each block of the cluster, from kBegin on, so that 0 is none.
inline constexpr uint32_t kBegin = 1 << 20;
inline uint32_t shared_address(const void* p) {
  const auto at = static_cast<const char*>(p) - fk_emulation::arena();
  if (at < 0 || at >= static_cast<int64_t>(cluster().blocks.size() * Machine::kWindow))
    refuse("an address of what is not dynamic shared memory");
  return kBegin + static_cast<uint32_t>(at);
}
template <class T = char>
T* at_shared(uint32_t address, size_t alignment = alignof(T)) {
  if (address < kBegin || address - kBegin >= cluster().blocks.size() * Machine::kWindow)
    refuse("an address outside the cluster's shared memory");
  if (address % alignment) refuse("an address that is not aligned");
  return reinterpret_cast<T*>(fk_emulation::arena() + (address - kBegin));
}
inline uint32_t map_shared_rank(uint32_t at, int rank) {
  if (rank < 0 || static_cast<size_t>(rank) >= cluster().blocks.size())
    refuse("a rank outside the cluster");
  return kBegin + (at - kBegin) % static_cast<uint32_t>(Machine::kWindow) +
         static_cast<uint32_t>(rank) * static_cast<uint32_t>(Machine::kWindow);
}
inline float dsmem_load(uint32_t there) { return *at_shared<float>(there); }
inline unsigned long long dsmem_load_u64(uint32_t there) {
  return *at_shared<unsigned long long>(there);
}
inline void cluster_sync() { fk_emulation::wait(cluster().threads); }

// Rows of eight 16-bit elements; two of the row lane / 4 of each matrix, or of its column.
inline void load_rows(uint32_t (&r)[4], uint32_t from, bool transposed) {
  const auto rows = fk_all_lanes(from);
  const unsigned lane = fk_lane();
  for (unsigned m = 0; m < 4; ++m)
    for (unsigned i = 0; i < 2; ++i) {
      const unsigned row = transposed ? lane % 4 * 2 + i : lane / 4;
      const unsigned column = transposed ? lane / 4 : lane % 4 * 2 + i;
      const uint16_t v = at_shared<uint16_t>(rows[m * 8 + row], 16)[column];
      r[m] = i ? r[m] | uint32_t{v} << 16 : v;
    }
}
inline void ldmatrix(uint32_t (&r)[4], uint32_t from) { load_rows(r, from, false); }
inline void ldmatrix_trans(uint32_t (&r)[4], uint32_t from) { load_rows(r, from, true); }
inline uint32_t movmatrix_trans(uint32_t v) {
  const auto all = fk_all_lanes(v);
  const unsigned lane = fk_lane();
  const auto element = [&](unsigned row, unsigned column) {
    return all[row * 4 + column / 2] >> column % 2 * 16 & 0xffff;
  };
  return element(lane % 4 * 2, lane / 4) | element(lane % 4 * 2 + 1, lane / 4) << 16;
}
template <class T>
float half_of(uint32_t two, unsigned which) {
  return to_float(T{static_cast<uint16_t>(two >> which * 16)});
}
template <class T>
void mma_m16n8k16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  struct Fragment {
    uint32_t a[4], b[2];
  };
  const auto all = fk_all_lanes(Fragment{{a[0], a[1], a[2], a[3]}, {b0, b1}});
  const unsigned lane = fk_lane();
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = lane / 4, column = lane % 4 * 2 + i % 2;
    double sum = 0;
    for (unsigned k = 0; k < 16; ++k) {
      const uint32_t left = all[row * 4 + k % 8 / 2].a[k / 8 * 2 + i / 2];
      const uint32_t right = all[column * 4 + k % 8 / 2].b[k / 8];
      sum += double{half_of<T>(left, k % 2)} * double{half_of<T>(right, k % 2)};
    }
    c[i] = static_cast<float>(c[i] + sum);
  }
}
inline uint32_t mul_bf16x2(uint32_t a, uint32_t b) {
  uint32_t v = 0;
  for (unsigned i = 0; i < 2; ++i)
    v |= uint32_t{from_float<__nv_bfloat16>(half_of<__nv_bfloat16>(a, i) *
                                            half_of<__nv_bfloat16>(b, i))
                      .bits}
         << i * 16;
  return v;
}
inline float exp2_approx(float v) { return std::exp2(v); }

inline void cp_async_16(uint32_t to, const void* from, bool there) {
  if (there && reinterpret_cast<uintptr_t>(from) % 16) refuse("a copy that is not aligned");
  char* const at = at_shared<char>(to, 16);
  there ? std::memcpy(at, from, 16) : std::memset(at, 0, 16);
}
inline void cp_async_8(uint32_t to, const void* from) {
  if (reinterpret_cast<uintptr_t>(from) % 8) refuse("a copy that is not aligned");
  std::memcpy(at_shared<char>(to, 8), from, 8);
}
inline void cp_async_commit() {}
template <int kGroups>
void cp_async_wait() {}

inline void named_barrier_sync(int barrier, int threads) {
  auto& named = fk_emulation::block().named.at(static_cast<size_t>(barrier));
  const int turn = named.passed;
  machine.moved = true;
  if (++named.arrived == threads) named.arrived = 0, ++named.passed;
  fk_emulation::wait_until([&] { return named.passed != turn; });
}
inline void named_barrier_arrive(int barrier, int threads) {
  auto& named = fk_emulation::block().named.at(static_cast<size_t>(barrier));
  machine.moved = true;
  if (++named.arrived == threads) named.arrived = 0, ++named.passed;
}

struct Barrier {
  int32_t bytes;  // expected, less those that came
  uint16_t pending;
  uint16_t count : 15, phase : 1;
};
static_assert(sizeof(Barrier) == 8);
inline Barrier& barrier_at(uint32_t at) { return *at_shared<Barrier>(at, 8); }
inline void note(Barrier& barrier) {
  machine.moved = true;
  if (barrier.pending || barrier.bytes) return;
  barrier.phase ^= 1;
  barrier.pending = barrier.count;
}
inline void arrive_once(Barrier& barrier) {
  if (!barrier.pending) refuse("more arrivals at a barrier than it counts");
  --barrier.pending;
  note(barrier);
}
inline void arrived(uint32_t barrier, int bytes) {
  barrier_at(barrier).bytes -= bytes;
  note(barrier_at(barrier));
}
inline void fence_mbarrier_init() {}
inline void mbarrier_init(uint32_t at, int count) {
  barrier_at(at) = {0, static_cast<uint16_t>(count), static_cast<uint16_t>(count & 0x7fff), 0};
}
inline void mbarrier_arrive(uint32_t at) { arrive_once(barrier_at(at)); }
inline void cp_async_mbarrier_arrive(uint32_t barrier) { arrive_once(barrier_at(barrier)); }
inline void mbarrier_arrive_remote(uint32_t there) { arrive_once(barrier_at(there)); }
inline void mbarrier_arrive_remote_unordered(uint32_t there) { arrive_once(barrier_at(there)); }
inline void mbarrier_arrive_expect_tx(uint32_t at, int bytes) {
  barrier_at(at).bytes += bytes;
  arrive_once(barrier_at(at));
}
inline void mbarrier_wait(uint32_t at, uint32_t parity) {
  fk_emulation::wait_until([&] { return barrier_at(at).phase != parity; });
}
inline void dsmem_store_async(uint32_t there, float4 v, uint32_t barrier_there) {
  *at_shared<float4>(there) = v;
  arrived(barrier_there, 16);
}
inline void store_shared(uint32_t to, uint4 v) { *at_shared<uint4>(to, 16) = v; }
inline uint4 load_shared(uint32_t from) { return *at_shared<uint4>(from, 16); }
inline void bulk_store(void* to, uint32_t from, int bytes) {
  if (bytes % 16 || reinterpret_cast<uintptr_t>(to) % 16) refuse("a copy that is not aligned");
  std::memcpy(to, at_shared<char>(from, 16), static_cast<size_t>(bytes));
}
inline void bulk_store_commit() {}
template <int kGroups = 0>
void bulk_store_wait_read() {}
template <int kGroups = 0>
void bulk_store_wait() {}
inline void fence_proxy_async_shared() {}
inline void fence_proxy_async() {}

// Between ranks, which are processes.
inline void store_release(uint32_t* at, uint32_t value) {
  __atomic_store_n(at, value, __ATOMIC_RELEASE);
}
inline uint32_t load_acquire(const uint32_t* at) { return __atomic_load_n(at, __ATOMIC_ACQUIRE); }
template <class Word>
Word load_relaxed(const Word* at) {
  using Part = std::conditional_t<sizeof(Word) < 4, Word, unsigned>;
  Part parts[sizeof(Word) / sizeof(Part)];
  for (Part& part : parts)
    part = __atomic_load_n(reinterpret_cast<const Part*>(at) + (&part - parts), __ATOMIC_ACQUIRE);
  Word word;
  std::memcpy(&word, parts, sizeof word);
  return word;
}
template <class Word>
void store_relaxed(Word* at, Word word) {
  using Part = std::conditional_t<sizeof(Word) < 4, Word, unsigned>;
  Part parts[sizeof(Word) / sizeof(Part)];
  std::memcpy(parts, &word, sizeof word);
  for (const Part& part : parts)
    __atomic_store_n(reinterpret_cast<Part*>(at) + (&part - parts), part, __ATOMIC_RELEASE);
}
inline float max_or_nan(float a, float b) { return a > b || a != a ? a : b; }
inline float min_or_nan(float a, float b) { return a < b || a != a ? a : b; }
inline unsigned sm_id() { return blockIdx.x; }
inline void let_others_run() { fk_emulation::spin(); }
// Slower than it is, as everything else.
inline unsigned long long global_timer_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<unsigned long long>(std::chrono::nanoseconds(now).count()) / 8;
}

inline void prefetch_l2(const void*) {}
inline void prefetch_tensor_map(const CUtensorMap&) {}
inline uint64_t l2_evict_first() { return 0; }
inline void bulk_load(uint32_t to, const void* from, int bytes, uint32_t barrier) {
  if (bytes % 16 || reinterpret_cast<uintptr_t>(from) % 16) refuse("a copy that is not aligned");
  std::memcpy(at_shared<char>(to, 16), from, static_cast<size_t>(bytes));
  arrived(barrier, bytes);
}

// The 128-byte swizzle: 16 bytes of a row go where bits of the row's number say.
inline uint32_t swizzled(uint32_t at) { return at ^ (at >> 7 & 7) << 4; }
inline void copy_map(uint32_t to, const CUtensorMap& map, const int64_t (&from)[5],
                     uint32_t barrier) {
  if (to % 128) refuse("a box that is not aligned");
  int64_t rows = 1, count = 0;
  for (uint32_t d = 1; d < map.rank; ++d) rows *= map.box[d];
  for (int64_t row = 0; row < rows; ++row) {
    int64_t rest = row;
    const char* elements = map.data;
    bool there = true;
    for (uint32_t d = 1; d < map.rank; ++d) {
      const int64_t at = from[d] + rest % map.box[d];
      rest /= map.box[d];
      there &= at >= 0 && at < static_cast<int64_t>(map.sizes[d]);
      if (there) elements += at * static_cast<int64_t>(map.strides[d]);
    }
    for (int64_t k = 0; k < map.box[0]; ++k, ++count) {
      const int64_t at = from[0] + k;
      uint16_t& place = *at_shared<uint16_t>(swizzled(to + static_cast<uint32_t>(count) * 2));
      if (there && at >= 0 && at < static_cast<int64_t>(map.sizes[0]))
        std::memcpy(&place, elements + at * static_cast<int64_t>(map.strides[0]), 2);
      else
        place = 0;
    }
  }
  arrived(barrier, static_cast<int>(count) * 2);
}
inline void tma_load_2d(uint32_t to, const CUtensorMap& map, int k, int row, uint32_t barrier) {
  copy_map(to, map, {k, row}, barrier);
}
inline void tma_load_2d_multicast(uint32_t to, const CUtensorMap& map, int k, int row, uint32_t barrier,
                           uint16_t mask) {
  for (int rank = 0; mask >> rank; ++rank)
    if (mask >> rank & 1) tma_load_2d(map_shared_rank(to, rank), map, k, row, map_shared_rank(barrier, rank));
}
inline void tma_load_3d(uint32_t to, const CUtensorMap& map, int a, int b, int c,
                        uint32_t barrier) {
  copy_map(to, map, {a, b, c}, barrier);
}
inline void tma_load_4d(uint32_t to, const CUtensorMap& map, int a, int b, int c, int d,
                        uint32_t barrier) {
  copy_map(to, map, {a, b, c, d}, barrier);
}
inline void tma_load_k64(uint32_t to, const CUtensorMap& map, int row, int k64, uint32_t barrier) {
  copy_map(to, map, {0, row, k64}, barrier);
}
inline void tma_load_k64(uint32_t to, const CUtensorMap& map, int row, int k64, uint32_t barrier,
                     uint64_t) {
  copy_map(to, map, {0, row, k64}, barrier);
}
inline void tma_load_k64_multicast(uint32_t to, const CUtensorMap& map, int row, int k64, uint32_t barrier,
                        uint16_t mask) {
  for (int rank = 0; mask >> rank; ++rank)
    if (mask >> rank & 1) copy_map(map_shared_rank(to, rank), map, {0, row, k64}, map_shared_rank(barrier, rank));
}

template <class... Registers>
void wgmma_fence(Registers&...) {}
inline void wgmma_commit() {}
template <int kGroups, class... Registers>
void wgmma_wait(Registers&...) {}
template <class... Registers>
void wgmma_wait_after(float, Registers&...) {}
// Sixteen elements of a row of an operand: two pieces that the swizzle leaves as they are.
template <class T>
void load_operand(float (&row_of)[16], uint64_t operand, unsigned row) {
  const uint32_t from = map_shared_rank(kBegin + (static_cast<uint32_t>(operand & 0x3fff) << 4),
                                 static_cast<int>(fk_emulation::rank()));
  for (unsigned piece = 0; piece < 2; ++piece) {
    const T* const at =
        at_shared<T>(swizzled(from + row / 8 * 1024 + row % 8 * 128 + piece * 16), 16);
    for (unsigned k = 0; k < 8; ++k) row_of[piece * 8 + k] = to_float(at[k]);
  }
}
// Each thread has the sums of its rows and columns, so that it needs no other.
template <class T, int kN, int kSums>
void wgmma(float (&d)[kSums], uint64_t a, uint64_t b, bool add) {
  const unsigned lane = fk_lane(), warp = threadIdx.x / 32 % 4;
  float left[2][16], right[16];
  for (unsigned half = 0; half < 2; ++half)
    load_operand<T>(left[half], a, warp * 16 + lane / 4 + half * 8);
  for (unsigned j = 0; j < kN / 8; ++j)
    for (unsigned i = 0; i < 2; ++i) {
      load_operand<T>(right, b, j * 8 + lane % 4 * 2 + i);
      for (unsigned half = 0; half < 2; ++half) {
        float& sum = d[j * 4 + half * 2 + i];
        double total = add ? double{sum} : 0;
        for (unsigned k = 0; k < 16; ++k) total += double{left[half][k]} * double{right[k]};
        sum = static_cast<float>(total);
      }
    }
}

// A fragment's 16 columns lie with the four lanes of its rows; b is 16 rows of K, 64 of N in each 128 bytes.
template <class T, int kN>
void wgmma_rs(float (&d)[kN / 2], const uint32_t (&a)[4], uint64_t b, bool add) {
  const unsigned lane = fk_lane();
  float left[2][16];
  for (unsigned q = 0; q < 4; ++q)
    for (unsigned i = 0; i < 4; ++i) {
      const uint32_t word = fk_emulation::exchange(a[i], lane / 4 * 4 + q);
      T two[2];
      std::memcpy(two, &word, 4);
      for (unsigned e = 0; e < 2; ++e) left[i % 2][i / 2 * 8 + q * 2 + e] = to_float(two[e]);
    }
  const uint32_t from = map_shared_rank(kBegin + (static_cast<uint32_t>(b & 0x3fff) << 4),
                                 static_cast<int>(fk_emulation::rank()));
  const uint32_t further = static_cast<uint32_t>(b >> 16 & 0x3fff) << 4;
  for (unsigned j = 0; j < kN / 8; ++j)
    for (unsigned i = 0; i < 2; ++i) {
      const unsigned n = j * 8 + lane % 4 * 2 + i;
      double total[2] = {0, 0};
      for (unsigned k = 0; k < 16; ++k) {
        const uint32_t at = from + n / 64 * further + k * 128 + n % 64 * 2;
        const double right{to_float(*at_shared<T>(swizzled(at), 2))};
        for (unsigned half = 0; half < 2; ++half) total[half] += double{left[half][k]} * right;
      }
      for (unsigned half = 0; half < 2; ++half) {
        float& sum = d[j * 4 + half * 2 + i];
        sum = static_cast<float>((add ? double{sum} : 0) + total[half]);
      }
    }
}

}  // namespace fkc
