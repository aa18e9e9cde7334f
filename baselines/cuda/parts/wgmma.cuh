// SPDX-License-Identifier: Apache-2.0
// wgmma: products of a warpgroup, 64 x N x 16 with sums in float32. Operands of 16 bits are in
// shared memory in the 128-byte swizzle, or the left one in registers.
#pragma once
#include <type_traits>

#include "reduce.cuh"
#include "target.cuh"

namespace fkc {

// The descriptor of an operand with K innermost, in rows of 128 bytes. 16 elements further in K
// add 2.
__device__ inline uint64_t wgmma_descriptor(uint32_t at) {
  return uint64_t((at & 0x3ffff) >> 4) | uint64_t(1) << 16 | uint64_t(1024 >> 4) << 32 |
         uint64_t(1) << 62;
}

// The descriptor of an operand with N innermost. Each step of K is a row of 64 elements of N, and
// the next 64 are `further` bytes away. 16 elements further in K add 128.
__device__ inline uint64_t wgmma_descriptor_mn(uint32_t at, uint32_t further) {
  return uint64_t((at & 0x3ffff) >> 4) | uint64_t(further >> 4) << 16 | uint64_t(1024 >> 4) << 32 |
         uint64_t(1) << 62;
}

// Transposes four words of four lanes: word i of lane q becomes word q of lane i. If words have two
// neighbours of a row of sums, each lane then has eight neighbours.
__device__ inline void transpose_quad(uint32_t (&w)[4]) {
  const int q = threadIdx.x % 4;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const uint32_t got = __shfl_xor_sync(0xffffffffu, q & 1 ? w[i] : w[i + 1], 1);
    w[i] = q & 1 ? got : w[i], w[i + 1] = q & 1 ? w[i + 1] : got;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint32_t got = __shfl_xor_sync(0xffffffffu, q & 2 ? w[i] : w[i + 2], 2);
    w[i] = q & 2 ? got : w[i], w[i + 2] = q & 2 ? w[i + 2] : got;
  }
}

}  // namespace fkc

#ifdef __CUDACC__

namespace fkc {

// Gives up registers, or takes them from warpgroups which gave them up: kCount for each thread of
// this warpgroup from here on. A warpgroup which asks for more than there are waits for ever.
template <int kCount>
__device__ void warpgroup_reg_dealloc() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ void warpgroup_reg_alloc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

// A fence of registers which wgmma reads or writes. The compiler sees them change here, so it moves
// no use of them across. Otherwise only ptxas knows that a product under way still uses them.
template <int kCount>
__device__ void warpgroup_fence_operand(float (&sums)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}
template <int kCount>
__device__ void warpgroup_fence_operand(uint32_t (&fragments)[kCount][4]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) asm volatile("" : "+r"(fragments[i][j])::"memory");
}
// Before the first product of a group. `registers`: all its sums and fragments.
template <class... Registers>
__device__ void wgmma_fence(Registers&... registers) {
  (warpgroup_fence_operand(registers), ...);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Waits until at most kGroups groups are under way. `registers`: those of ended groups, free from
// here on.
template <int kGroups, class... Registers>
__device__ void wgmma_wait(Registers&... registers) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroups) : "memory");
  (warpgroup_fence_operand(registers), ...);
}
// Waits until no group is under way, but computes `done` first, which is never below zero. ptxas
// would move the wait before the computation if nothing depended on it.
template <class... Registers>
__device__ void wgmma_wait_after(float done, Registers&... registers) {
  if (done < 0) __trap();
  wgmma_wait<0>(registers...);
}

// Eight sums at a time: their text in the instruction, and their operands.
#define FK_TEXT_0 "%0, %1, %2, %3, %4, %5, %6, %7"
#define FK_TEXT_1 FK_TEXT_0 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define FK_TEXT_2 FK_TEXT_1 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define FK_TEXT_3 FK_TEXT_2 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define FK_TEXT_4 FK_TEXT_3 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define FK_TEXT_5 FK_TEXT_4 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define FK_TEXT_6 FK_TEXT_5 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define FK_TEXT_7 FK_TEXT_6 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define FK_TEXT_8 FK_TEXT_7 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define FK_TEXT_9 FK_TEXT_8 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define FK_TEXT_10 FK_TEXT_9 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define FK_TEXT_11 FK_TEXT_10 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define FK_TEXT_12 FK_TEXT_11 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define FK_TEXT_13 FK_TEXT_12 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define FK_TEXT_14 FK_TEXT_13 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define FK_TEXT_15 FK_TEXT_14 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define FK_EIGHT(i)                                                                           \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define FK_SUMS_0 FK_EIGHT(0)
#define FK_SUMS_1 FK_SUMS_0, FK_EIGHT(8)
#define FK_SUMS_2 FK_SUMS_1, FK_EIGHT(16)
#define FK_SUMS_3 FK_SUMS_2, FK_EIGHT(24)
#define FK_SUMS_4 FK_SUMS_3, FK_EIGHT(32)
#define FK_SUMS_5 FK_SUMS_4, FK_EIGHT(40)
#define FK_SUMS_6 FK_SUMS_5, FK_EIGHT(48)
#define FK_SUMS_7 FK_SUMS_6, FK_EIGHT(56)
#define FK_SUMS_8 FK_SUMS_7, FK_EIGHT(64)
#define FK_SUMS_9 FK_SUMS_8, FK_EIGHT(72)
#define FK_SUMS_10 FK_SUMS_9, FK_EIGHT(80)
#define FK_SUMS_11 FK_SUMS_10, FK_EIGHT(88)
#define FK_SUMS_12 FK_SUMS_11, FK_EIGHT(96)
#define FK_SUMS_13 FK_SUMS_12, FK_EIGHT(104)
#define FK_SUMS_14 FK_SUMS_13, FK_EIGHT(112)
#define FK_SUMS_15 FK_SUMS_14, FK_EIGHT(120)
// n: columns. last: the last group of eight sums. a_, b_, p_: numbers of the operands behind the
// sums.
#define FK_WGMMA(n, last, a_, b_, p_, type)                                                       \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %" #p_ ", 0; wgmma.mma_async.sync.aligned.m64n" #n \
               "k16.f32." type "." type " {" FK_TEXT_##last "}, %" #a_ ", %" #b_                  \
                                                            ", p, 1, 1, 0, 0; }"                  \
               : FK_SUMS_##last                                                                   \
               : "l"(a), "l"(b), "r"(int(add)))

// d = a @ b^T (+ d) with 64 rows of a and kN rows of b, in the first kN / 2 sums of d.
template <class T, int kN, int kSums>
__device__ void wgmma(float (&d)[kSums], uint64_t a, uint64_t b, bool add) {
  static_assert(kN / 2 <= kSums);
  constexpr bool bf16 = std::is_same_v<T, __nv_bfloat16>;
#define FK_WGMMA_OF(n, last, a_, b_, p_)   \
  if constexpr (kN == n && bf16)           \
    FK_WGMMA(n, last, a_, b_, p_, "bf16"); \
  else if constexpr (kN == n)              \
  FK_WGMMA(n, last, a_, b_, p_, "f16")
  FK_WGMMA_OF(16, 0, 8, 9, 10);
  FK_WGMMA_OF(32, 1, 16, 17, 18);
  FK_WGMMA_OF(48, 2, 24, 25, 26);
  FK_WGMMA_OF(64, 3, 32, 33, 34);
  FK_WGMMA_OF(80, 4, 40, 41, 42);
  FK_WGMMA_OF(96, 5, 48, 49, 50);
  FK_WGMMA_OF(112, 6, 56, 57, 58);
  FK_WGMMA_OF(128, 7, 64, 65, 66);
  FK_WGMMA_OF(144, 8, 72, 73, 74);
  FK_WGMMA_OF(160, 9, 80, 81, 82);
  FK_WGMMA_OF(176, 10, 88, 89, 90);
  FK_WGMMA_OF(192, 11, 96, 97, 98);
  FK_WGMMA_OF(208, 12, 104, 105, 106);
  FK_WGMMA_OF(224, 13, 112, 113, 114);
  FK_WGMMA_OF(240, 14, 120, 121, 122);
  FK_WGMMA_OF(256, 15, 128, 129, 130);
#undef FK_WGMMA_OF
}
#undef FK_WGMMA

// d = a @ b (+ d) with a in registers, as fragments of 16 columns, and b of wgmma_descriptor_mn().
#define FK_WGMMA(n, last, a_, b_, p_, type)                                                        \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %" #p_ ", 0; wgmma.mma_async.sync.aligned.m64n" #n  \
               "k16.f32." type "." type " {" FK_TEXT_##last "}, {" a_ "}, %" #b_ ", p, 1, 1, 1; }" \
               : FK_SUMS_##last                                                                    \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(add)))
template <class T, int kN>
__device__ void wgmma_rs(float (&d)[kN / 2], const uint32_t (&a)[4], uint64_t b, bool add) {
  constexpr bool bf16 = std::is_same_v<T, __nv_bfloat16>;
#define FK_WGMMA_OF(n, last, a_, b_, p_)   \
  if constexpr (kN == n && bf16)           \
    FK_WGMMA(n, last, a_, b_, p_, "bf16"); \
  else if constexpr (kN == n)              \
  FK_WGMMA(n, last, a_, b_, p_, "f16")
  static_assert(kN == 64 || kN == 80 || kN == 96 || kN == 128);
  FK_WGMMA_OF(64, 3, "%32, %33, %34, %35", 36, 37);
  FK_WGMMA_OF(80, 4, "%40, %41, %42, %43", 44, 45);
  FK_WGMMA_OF(96, 5, "%48, %49, %50, %51", 52, 53);
  FK_WGMMA_OF(128, 7, "%64, %65, %66, %67", 68, 69);
#undef FK_WGMMA_OF
}
#undef FK_WGMMA
#undef FK_EIGHT
#undef FK_TEXT_0
#undef FK_SUMS_0
#undef FK_TEXT_1
#undef FK_SUMS_1
#undef FK_TEXT_2
#undef FK_SUMS_2
#undef FK_TEXT_3
#undef FK_SUMS_3
#undef FK_TEXT_4
#undef FK_SUMS_4
#undef FK_TEXT_5
#undef FK_SUMS_5
#undef FK_TEXT_6
#undef FK_SUMS_6
#undef FK_TEXT_7
#undef FK_SUMS_7
#undef FK_TEXT_8
#undef FK_SUMS_8
#undef FK_TEXT_9
#undef FK_SUMS_9
#undef FK_TEXT_10
#undef FK_SUMS_10
#undef FK_TEXT_11
#undef FK_SUMS_11
#undef FK_TEXT_12
#undef FK_SUMS_12
#undef FK_TEXT_13
#undef FK_SUMS_13
#undef FK_TEXT_14
#undef FK_SUMS_14
#undef FK_TEXT_15
#undef FK_SUMS_15

}  // namespace fkc

#endif
