// SPDX-License-Identifier: Apache-2.0
// As much of CUDA as baselines/cuda_reference uses, for a CPU and a C++ compiler: every thread of a
// block is a fiber, and they take turns at barriers. A warp runs ahead as far as it can, and at
// every second launch the last block, warp and lane are the first, so that results that depend on
// an order differ from run to run. Shared memory is static: one launch at a time. A barrier that
// not all threads reach ends the process.
#pragma once
#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __launch_bounds__(threads)

struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
inline dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace fk_emulation {

// Threads that wait for each other: a block, or one of its warps.
struct Group {
  int alive = 0, arrived = 0, passed = 0;
};
// Begun by setcontext once and kept for later blocks; from then on _longjmp, which asks nothing of
// the kernel.
struct Fiber {
  jmp_buf at;
  std::unique_ptr<char[]> stack;
  bool done;
};
struct Machine {
  static constexpr size_t kStack = size_t{64} << 10;
  std::mutex one_launch;
  std::vector<Fiber> fibers;
  std::vector<Group> warps;
  std::vector<double> dynamic;
  std::function<void()> kernel;
  jmp_buf scheduler;
  Group block;
  unsigned current = 0, launches = 0;
  bool moved = false;  // since it was last set to false
};
inline Machine machine;

inline double* dynamic_shared() { return machine.dynamic.data(); }
inline Fiber& fiber() { return machine.fibers[machine.current]; }
[[gnu::noinline]] inline void leave() {
  if (!_setjmp(fiber().at)) _longjmp(machine.scheduler, 1);
}
inline void wait(Group& group) {
  const int turn = group.passed;
  ++group.arrived;
  machine.moved = true;
  while (group.passed == turn) {
    if (group.arrived == group.alive) {
      group.arrived = 0;
      ++group.passed;
      machine.moved = true;
    } else {
      leave();
    }
  }
}
inline Group& warp() { return machine.warps[machine.current / 32]; }

[[noreturn]] inline void run_fiber() {
  for (;;) {
    machine.kernel();
    fiber().done = machine.moved = true;
    --machine.block.alive;
    --warp().alive;
    leave();
  }
}
[[gnu::noinline]] inline void resume() {
  if (_setjmp(machine.scheduler)) return;
  if (fiber().stack) _longjmp(fiber().at, 1);
  fiber().stack = std::make_unique<char[]>(Machine::kStack);
  static ucontext_t first;
  getcontext(&first);
  first.uc_stack.ss_sp = fiber().stack.get();
  first.uc_stack.ss_size = Machine::kStack;
  makecontext(&first, run_fiber, 0);
  setcontext(&first);
}
// One turn for each thread from the `first` on, counted from the end when `backwards`; whether any
// came further.
inline bool run_warp(unsigned first, unsigned threads, bool backwards) {
  machine.moved = false;
  for (unsigned i = first; i < first + 32 && i < threads; ++i) {
    machine.current = backwards ? threads - 1 - i : i;
    if (fiber().done) continue;
    threadIdx.x = machine.current;
    resume();
  }
  return machine.moved;
}
inline void run_block(unsigned threads, bool backwards) {
  machine.block = {static_cast<int>(threads), 0, 0};
  machine.warps.assign((threads + 31) / 32, {});
  std::fill(machine.dynamic.begin(), machine.dynamic.end(), NAN);
  for (unsigned i = 0; i < threads; ++i) {
    machine.fibers[i].done = false;
    ++machine.warps[i / 32].alive;
  }
  while (machine.block.alive > 0) {
    bool moved = false;
    for (unsigned first = 0; first < threads; first += 32) {
      while (run_warp(first, threads, backwards)) moved = true;
    }
    if (moved) continue;
    std::fputs("cuda_emulation: threads of a block wait at different barriers\n", stderr);
    std::abort();
  }
}
inline void run_grid(dim3 grid, dim3 block, size_t shared, std::function<void()> kernel) {
  const std::lock_guard lock(machine.one_launch);
  gridDim = grid;
  blockDim = block;
  machine.kernel = std::move(kernel);
  machine.dynamic.resize(shared / 8);
  if (machine.fibers.size() < block.x) machine.fibers.resize(block.x);
  const bool backwards = machine.launches++ % 2;
  const uint64_t blocks = uint64_t{grid.x} * grid.y * grid.z;
  for (uint64_t n = 0; n < blocks; ++n) {
    const uint64_t i = backwards ? blocks - 1 - n : n;
    blockIdx = {static_cast<unsigned>(i % grid.x), static_cast<unsigned>(i / grid.x % grid.y),
                static_cast<unsigned>(i / grid.x / grid.y)};
    run_block(block.x, backwards);
  }
}

// What each lane of a warp brings, for the exchanges below.
template <class T>
T exchange(T v, unsigned partner) {
  static T values[1024];
  values[threadIdx.x] = v;
  wait(warp());
  const T got = values[threadIdx.x / 32 * 32 + partner];
  wait(warp());
  return got;
}
// mma.sync.m16n8k4 in double, as baselines/cuda_reference/device.cuh describes it.
inline void multiply(double (&c)[4], double a0, double a1, double b) {
  static double left[32][16][4], right[32][4][8];
  const unsigned w = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  left[w][g][t] = a0;
  left[w][g + 8][t] = a1;
  right[w][t][g] = b;
  wait(warp());
  for (unsigned i = 0; i < 4; ++i)
    for (unsigned k = 0; k < 4; ++k) c[i] += left[w][g + i / 2 * 8][k] * right[w][k][2 * t + i % 2];
  wait(warp());
}

}  // namespace fk_emulation

using cudaStream_t = void*;
enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidConfiguration = 9 };
inline const char* cudaGetErrorString(cudaError_t) { return "invalid configuration argument"; }
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
};
template <class... Parameters, class... Args>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               const Args&... args) {
  const dim3 grid = config->gridDim, block = config->blockDim;
  if (!grid.x || !grid.y || !grid.z || grid.y > 65535 || grid.z > 65535 || !block.x ||
      block.x > 1024 || block.y * block.z != 1 || config->dynamicSmemBytes > 48 << 10)
    return cudaErrorInvalidConfiguration;
  fk_emulation::run_grid(grid, block, config->dynamicSmemBytes, [&] { kernel(args...); });
  return cudaSuccess;
}

inline void __syncthreads() { fk_emulation::wait(fk_emulation::machine.block); }
template <class T>
T __shfl_xor_sync(unsigned, T v, int mask) {
  return fk_emulation::exchange(v, threadIdx.x % 32 ^ static_cast<unsigned>(mask));
}
inline uint32_t atomicOr(uint32_t* at, uint32_t v) {
  const uint32_t old = *at;
  *at |= v;
  return old;
}
inline int __popc(uint32_t v) { return __builtin_popcount(v); }
inline int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }
inline uint32_t __float_as_uint(float v) {
  uint32_t bits;
  std::memcpy(&bits, &v, 4);
  return bits;
}
inline int64_t __double_as_longlong(double v) {
  int64_t bits;
  std::memcpy(&bits, &v, 8);
  return bits;
}
