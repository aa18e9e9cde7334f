// SPDX-License-Identifier: Apache-2.0
// The machine under the emulation of CUDA: every thread of a block, or of all blocks of a cluster,
// is a fiber, and they take turns at barriers. A warp runs ahead as far as it can, and at every
// second launch the last block, warp and lane are the first, so that results that depend on an
// order differ from run to run. One launch at a time. Threads that wait for what never comes end
// the process.
#pragma once
#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
inline dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace fk_emulation {

// Threads that wait for each other: a cluster, a block, or a warp.
struct Group {
  int alive = 0, arrived = 0, passed = 0;
};
// A barrier by number: its count comes with those who arrive.
struct Named {
  int arrived = 0, passed = 0;
};
struct Block {
  dim3 index;
  Group threads;
  std::array<Named, 16> named;
};
// Begun by setcontext once and kept for later blocks; from then on _longjmp, which asks nothing of
// the kernel.
struct Fiber {
  jmp_buf at;
  std::unique_ptr<char[]> stack;
  bool done;
  const Group* awaits = nullptr;  // and which of its turns
  int turn = 0;
  bool waits() const {
    return awaits && awaits->passed == turn && awaits->arrived != awaits->alive;
  }
};
struct Machine {
  static constexpr size_t kStack = size_t{96} << 10;
  static constexpr size_t kWindow = size_t{256} << 10;  // of shared memory's addresses, for a block
  std::mutex one_launch;
  std::vector<Fiber> fibers;  // block by block
  std::vector<Group> warps;
  std::vector<Block> blocks;
  std::unique_ptr<char[]> memory;  // dynamic shared memory, a window for each block
  size_t windows = 0;
  std::function<void()> kernel;
  jmp_buf scheduler;
  Group cluster;
  unsigned current = 0, threads = 0, launches = 0;
  bool moved = false;  // since it was last set to false
};
inline Machine machine;

[[noreturn]] inline void refuse(const char* what) {
  std::fprintf(stderr, "cuda_emulation: %s\n", what);
  std::abort();
}
inline unsigned rank() { return machine.current / machine.threads; }
inline Block& block() { return machine.blocks[rank()]; }
inline Group& warp() { return machine.warps[machine.current / 32]; }
inline Fiber& fiber() { return machine.fibers[machine.current]; }
inline char* arena() {
  return machine.memory.get() + (-reinterpret_cast<uintptr_t>(machine.memory.get()) & 1023U);
}
inline char* dynamic_shared() { return arena() + rank() * Machine::kWindow; }

[[gnu::noinline]] inline void leave() {
  if (!_setjmp(fiber().at)) _longjmp(machine.scheduler, 1);
}
template <class Reached>
void wait_until(Reached reached) {
  while (!reached()) leave();
}
inline void wait(Group& group) {
  const int turn = group.passed;
  ++group.arrived;
  machine.moved = true;
  fiber().turn = turn;
  fiber().awaits = &group;
  while (group.passed == turn) {
    if (group.arrived == group.alive) {
      group.arrived = 0;
      ++group.passed;
      machine.moved = true;
    } else {
      leave();
    }
  }
  fiber().awaits = nullptr;
}

[[noreturn]] inline void run_fiber() {
  for (;;) {
    machine.kernel();
    fiber().done = machine.moved = true;
    --machine.cluster.alive;
    --block().threads.alive;
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
    if (fiber().done || fiber().waits()) continue;
    threadIdx.x = machine.current % machine.threads;
    blockIdx = block().index;
    resume();
  }
  return machine.moved;
}
// The blocks of a cluster, which machine.blocks names.
inline void run_cluster(bool backwards) {
  const auto threads = static_cast<unsigned>(machine.blocks.size()) * machine.threads;
  machine.cluster = {static_cast<int>(threads), 0, 0};
  for (Block& b : machine.blocks) b.threads = {static_cast<int>(machine.threads), 0, 0};
  machine.warps.assign((threads + 31) / 32, {});
  for (unsigned i = 0; i < threads; ++i) {
    machine.fibers[i].done = false;
    machine.fibers[i].awaits = nullptr;
    ++machine.warps[i / 32].alive;
  }
  while (machine.cluster.alive > 0) {
    bool moved = false;
    for (unsigned first = 0; first < threads; first += 32)
      while (run_warp(first, threads, backwards)) moved = true;
    if (!moved) refuse("threads wait at different barriers, or for what never comes");
  }
}
inline void run_grid(dim3 grid, dim3 cluster, unsigned threads, size_t shared,
                     std::function<void()> kernel) {
  const std::lock_guard lock(machine.one_launch);
  gridDim = grid;
  blockDim = dim3(threads);
  machine.threads = threads;
  machine.kernel = std::move(kernel);
  const unsigned together = cluster.x * cluster.y * cluster.z;
  if (machine.windows < together) {
    machine.windows = together;
    machine.memory = std::make_unique<char[]>(together * Machine::kWindow + 1024);
  }
  if (machine.fibers.size() < together * threads) machine.fibers.resize(together * threads);
  const bool backwards = machine.launches++ % 2;
  const dim3 clusters(grid.x / cluster.x, grid.y / cluster.y, grid.z / cluster.z);
  const uint64_t all = uint64_t{clusters.x} * clusters.y * clusters.z;
  for (uint64_t n = 0; n < all; ++n) {
    const uint64_t i = backwards ? all - 1 - n : n;
    machine.blocks.assign(together, {});
    for (unsigned r = 0; r < together; ++r) {
      machine.blocks[r].index = {static_cast<unsigned>(i % clusters.x) * cluster.x + r % cluster.x,
                                 static_cast<unsigned>(i / clusters.x % clusters.y) * cluster.y +
                                     r / cluster.x % cluster.y,
                                 static_cast<unsigned>(i / clusters.x / clusters.y) * cluster.z +
                                     r / cluster.x / cluster.y};
      // All bits set: NaN, and no address of anything.
      std::memset(arena() + r * Machine::kWindow, 0xff, shared);
    }
    run_cluster(backwards);
  }
}

// What each lane of a warp brings, for the exchanges below.
template <class T>
T exchange(T v, unsigned partner) {
  static std::vector<T> values;
  if (values.size() < machine.fibers.size()) values.resize(machine.fibers.size());
  values[machine.current] = v;
  wait(warp());
  const T got = values[machine.current / 32 * 32 + partner];
  wait(warp());
  return got;
}
// mma.sync.m16n8k4 in double, as baselines/cuda_reference/device.cuh describes it.
inline void multiply(double (&c)[4], double a0, double a1, double b) {
  static double left[32][16][4], right[32][4][8];
  const unsigned w = machine.current / 32, lane = machine.current % 32, g = lane / 4, t = lane % 4;
  left[w][g][t] = a0;
  left[w][g + 8][t] = a1;
  right[w][t][g] = b;
  wait(warp());
  for (unsigned i = 0; i < 4; ++i)
    for (unsigned k = 0; k < 4; ++k) c[i] += left[w][g + i / 2 * 8][k] * right[w][k][2 * t + i % 2];
  wait(warp());
}

}  // namespace fk_emulation
