// SPDX-License-Identifier: Apache-2.0
// The machine under the emulation of CUDA: every thread of a block is a fiber, and they take turns
// at barriers. A warp runs ahead as far as it can. At every second launch the last block, warp and
// lane are the first, so results that depend on an order differ between runs. One launch at a time.
//
// Clusters run one after the other. If all threads of the begun clusters wait for words of memory
// (spin), another cluster begins beside them, as on a device with room. If none is left, the
// machine waits for other processes: ranks, which share the memory. Threads that wait for what
// never comes end the process.
#pragma once
#include <sched.h>
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
#include <utility>
#include <vector>

#include "declared_shared.hpp"

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
  int registers = 0;  // that its threads have given back
};
// Begun by setcontext once and kept for later blocks; from then on _longjmp, which asks nothing of
// the kernel.
struct Fiber {
  jmp_buf at;
  std::unique_ptr<char[]> stack;
  bool done;
  bool waited;  // for the launch before this one to end
  const Group* awaits = nullptr;  // and which of its turns
  int turn = 0;
  bool waits() const {
    return awaits && awaits->passed == turn && awaits->arrived != awaits->alive;
  }
};
// A cluster that has begun and not ended.
struct Cluster {
  std::vector<Fiber> fibers;  // block by block
  std::vector<Group> warps;
  std::vector<Block> blocks;
  Group threads;
  std::unique_ptr<char[]> memory;  // dynamic shared memory, a window for each block
  size_t windows = 0;
  std::vector<char> statics;  // the other shared memory, while another cluster runs
};
struct Machine {
  static constexpr size_t kStack = size_t{96} << 10;
  static constexpr size_t kWindow = size_t{256} << 10;  // of shared memory's addresses, for a block
  static constexpr unsigned kThreadsMost = 132 * 2048;  // that a device has room for
  std::mutex one_launch;
  std::vector<std::unique_ptr<Cluster>> begun, idle;
  Cluster* running = nullptr;
  std::function<void()> kernel;
  jmp_buf scheduler;
  unsigned current = 0, threads = 0, launches = 0;  // current: fiber of the running cluster
  bool moved = false, spins = false;                // since they were last set to false
  // A thread of this launch, and of the one before it, let the next one start before it waited.
  bool hurried = false, hurried_before = false;
};
inline Machine machine;

[[noreturn]] inline void refuse(const char* what) {
  std::fprintf(stderr, "cuda_emulation: %s\n", what);
  std::abort();
}
inline Cluster& cluster() { return *machine.running; }
inline unsigned rank() { return machine.current / machine.threads; }
inline Block& block() { return cluster().blocks[rank()]; }
inline Group& warp() { return cluster().warps[machine.current / 32]; }
inline Fiber& fiber() { return cluster().fibers[machine.current]; }
inline char* arena() {
  char* const memory = cluster().memory.get();
  return memory + (-reinterpret_cast<uintptr_t>(memory) & 1023U);
}
inline char* dynamic_shared() { return arena() + rank() * Machine::kWindow; }
[[gnu::noinline]] inline void leave() {
  if (!_setjmp(fiber().at)) _longjmp(machine.scheduler, 1);
}
template <class Reached>
void wait_until(Reached reached) {
  while (!reached()) leave();
}
// A thread gives registers back, or waits for such as others have given: a block has no more than it
// was launched with.
inline int launched_registers() { return 65536 / static_cast<int>(blockDim.x) / 8 * 8; }
inline void give_registers(int left) {
  block().registers += launched_registers() - left;
  machine.moved = true;
}
inline void take_registers(int wanted) {
  const int more = wanted - launched_registers();
  wait_until([&] { return block().registers >= more; });
  block().registers -= more;
  machine.moved = true;
}
// Between two looks at a word that another block or rank will change.
inline void spin() {
  machine.spins = true;
  leave();
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
    --cluster().threads.alive;
    --block().threads.alive;
    --warp().alive;
    leave();
  }
}
[[gnu::noinline]] inline void resume() {
  if (_setjmp(machine.scheduler)) return;
  if (fiber().stack) _longjmp(fiber().at, 1);
  fiber().stack = std::make_unique_for_overwrite<char[]>(Machine::kStack);
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

// A place for a cluster, with its blocks; all bits of its shared memory are set: NaN, and no
// address of anything.
inline std::unique_ptr<Cluster> begin(const std::vector<dim3>& blocks, size_t shared) {
  std::unique_ptr<Cluster> made;
  if (machine.idle.empty()) {
    made = std::make_unique<Cluster>();
  } else {
    made = std::move(machine.idle.back());
    machine.idle.pop_back();
  }
  Cluster& c = *made;
  const auto threads = static_cast<unsigned>(blocks.size()) * machine.threads;
  if (c.windows < blocks.size()) {
    c.windows = blocks.size();
    c.memory = std::make_unique_for_overwrite<char[]>(c.windows * Machine::kWindow + 1024);
  }
  if (c.fibers.size() < threads) c.fibers.resize(threads);
  c.threads = {static_cast<int>(threads), 0, 0};
  c.warps.assign((threads + 31) / 32, {});
  c.blocks.assign(blocks.size(), {});
  c.statics.clear();
  for (unsigned i = 0; i < threads; ++i) {
    c.fibers[i].done = c.fibers[i].waited = false;
    c.fibers[i].awaits = nullptr;
    ++c.warps[i / 32].alive;
  }
  machine.running = &c;
  for (size_t r = 0; r < blocks.size(); ++r) {
    c.blocks[r].index = blocks[r];
    c.blocks[r].threads = {static_cast<int>(machine.threads), 0, 0};
    std::memset(arena() + r * Machine::kWindow, 0xff, shared);
  }
  return made;
}
// As far as the cluster comes; whether it came further.
inline bool run_cluster(Cluster& c, const Bytes& statics, bool backwards) {
  machine.running = &c;
  if (!c.statics.empty()) std::memcpy(statics.at, c.statics.data(), statics.count);
  const auto threads = static_cast<unsigned>(c.blocks.size()) * machine.threads;
  bool moved = false, again = true;
  while (again) {
    again = machine.spins = false;
    for (unsigned first = 0; first < threads; first += 32)
      while (run_warp(first, threads, backwards)) again = moved = true;
  }
  if (c.threads.alive > 0 && !machine.spins)
    refuse("threads wait at different barriers, or for what never comes");
  if (c.threads.alive > 0 && statics.count)
    c.statics.assign(statics.at, statics.at + statics.count);
  return moved;
}
inline void run_grid(dim3 grid, dim3 cluster, unsigned threads, size_t shared,
                     std::function<void()> kernel) {
  const std::lock_guard lock(machine.one_launch);
  gridDim = grid;
  blockDim = dim3(threads);
  machine.threads = threads;
  machine.kernel = std::move(kernel);
  machine.hurried_before = std::exchange(machine.hurried, false);
  const bool backwards = machine.launches++ % 2;
  const dim3 clusters(grid.x / cluster.x, grid.y / cluster.y, grid.z / cluster.z);
  const unsigned together = cluster.x * cluster.y * cluster.z;
  const uint64_t all = uint64_t{clusters.x} * clusters.y * clusters.z;
  const auto blocks_of = [&](uint64_t i) {
    std::vector<dim3> blocks;
    for (unsigned r = 0; r < together; ++r)
      blocks.emplace_back(static_cast<unsigned>(i % clusters.x) * cluster.x + r % cluster.x,
                          static_cast<unsigned>(i / clusters.x % clusters.y) * cluster.y +
                              r / cluster.x % cluster.y,
                          static_cast<unsigned>(i / clusters.x / clusters.y) * cluster.z +
                              r / cluster.x / cluster.y);
    return blocks;
  };
  const Bytes here = declared_shared(&machine);
  auto& begun = machine.begun;
  for (uint64_t n = 0; n < all || !begun.empty();) {
    bool moved = false;
    for (auto& c : begun) moved |= run_cluster(*c, here, backwards);
    for (auto& c : begun)
      if (c->threads.alive == 0) machine.idle.push_back(std::move(c));
    std::erase(begun, nullptr);
    if (moved) continue;
    if (n < all && (begun.size() + 1) * together * threads <= Machine::kThreadsMost) {
      begun.push_back(begin(blocks_of(backwards ? all - 1 - n : n), shared));
      ++n;
    } else if (!begun.empty()) {
      sched_yield();
    } else if (n < all) {
      refuse("a cluster that no device has room for");
    }
  }
}

}  // namespace fk_emulation
