// SPDX-License-Identifier: Apache-2.0
#include "core/check/conformance.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <optional>
#include <thread>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/check/abort_reset.hpp"
#include "core/check/device_conformance.hpp"
#include "core/worker/process.hpp"
#include "core/worker/process_state.hpp"

namespace fk {

namespace {

constexpr int kCycles = 24, kTogether = 16;

std::string per(int64_t bytes, const char* what) {
  return std::to_string(bytes) + " bytes per " + what;
}

// True when memory outside of the allocator grows: each call adds at least one page to the process,
// without end. An arena that is reused wraps round before kMost bytes. If calls take too long for
// that, three rounds are enough.
bool grows(const std::function<void(int)>& calls) {
  constexpr int kRounds = 3, kOfRound = 16;
  constexpr int64_t kMost = int64_t{256} << 20;
  constexpr double kSeconds = 4;  // only growth in every round takes this long
  const int64_t page = ::sysconf(_SC_PAGESIZE);
  const double start = now_seconds();
  const int64_t first = resident_bytes(::getpid());
  int64_t before = first;
  for (int i = 0; i < kRounds || (now_seconds() - start < kSeconds && before - first < kMost);
       ++i) {
    calls(kOfRound);
    const int64_t now = resident_bytes(::getpid());
    if (now - before < kOfRound * page) return false;
    before = now;
  }
  return true;
}

// Memory that grows with each instance or each call. Pages are not tested for exchanges: that takes
// many calls, and each waits for other processes.
ConformanceFault leaks(const ConformanceCase& c) {
  const bool ranks = c.provider.contract->comm() != nullptr;
  const auto cycle = [&](int count) {
    for (int i = 0; i < count; ++i) {
      { Lone lone(c); }
      if (!ranks) continue;
      // Symmetric buffers come back when no rank has an instance. any_rank() first reports a rank
      // that has failed, because settle() would forget it.
      (void)any_rank(c, false);
      c.options.comm->settle();
    }
  };
  // The smallest loss of several rounds. The host's own tables grow at times, and a rank that waits
  // for others may need more memory, but not in every round.
  const int rounds = ranks ? 9 : 3, in_round = ranks ? kCycles / 3 : kCycles;
  const auto lost_by = [&](const std::function<void(int)>& work, int64_t allowed) {
    work(4);
    int64_t least = INT64_MAX;
    for (int i = 0; i < rounds; ++i) {
      const int64_t before = allocated_bytes();
      work(in_round);
      least = std::min(least, (allocated_bytes() - before) / in_round);
      // All ranks call, or none.
      if (ranks ? !any_rank(c, least > allowed) : least <= allowed) break;
    }
    return least;
  };
  // The host keeps a small table per instance, children included.
  const int64_t small = c.provider.contract->level == 1 ? 1 << 10 : 1 << 16;
  const int64_t instance = lost_by(cycle, small);
  ConformanceFault of_instances;
  if (instance > small)
    of_instances = {"leak", "create(), prepare() and destroy() lose " + per(instance, "instance")};
  if (any_rank(c, !of_instances.rule.empty())) return of_instances;  // all ranks call, or none
  if (!ranks && grows(cycle))
    return {"leak", "create(), prepare() and destroy() lose pages of memory"};
  Lone lone(c);
  const auto calls = [&](int count) {
    for (int i = 0; i < count; ++i) {
      lone.execution.run(c.frames, Poison::ones);
      if (ranks) (void)any_rank(c, false);  // no rank runs ahead
    }
  };
  constexpr int64_t kOfCall = 256;
  const int64_t one = lost_by(calls, kOfCall);
  if (one > kOfCall) return {"leak", "forward() loses " + per(one, "call")};
  if (!ranks && grows(calls)) return {"leak", "forward() loses pages of memory in every call"};
  return {};
}

// Runs `body` in a new thread, and rethrows its exception.
void elsewhere(const std::function<void()>& body) {
  std::exception_ptr thrown;
  std::thread([&] {
    try {
      body();
    } catch (...) {
      thrown = std::current_exception();
    }
  }).join();
  if (thrown) std::rethrow_exception(thrown);
}

// Calls an instance from another thread than its maker's.
ConformanceFault other_thread(const ConformanceCase& c, const CaseValues& answer,
                              const ConformanceCall& call, const ConformanceDiffer& differ) {
  Lone lone(c);
  CaseValues got;
  elsewhere([&] { got = call(lone.execution, c.frames); });
  if (differ(answer, got))
    return {"thread", "gives something else when another thread calls forward()"};
  return {};
}

// Two instances that run at the same time.
ConformanceFault together(const ConformanceCase& c, const CaseValues& answer,
                          const ConformanceCall& call, const ConformanceDiffer& differ) {
  Lone one(c), two(c);
  std::atomic<int> ready = 0;
  std::atomic<bool> other = false;
  const auto loop = [&](Lone& lone, CaseFrames& frames) {
    ++ready;
    while (ready < 2) std::this_thread::yield();
    for (int i = 0; i < kTogether && !other; ++i)
      if (differ(answer, call(lone.execution, frames))) other = true;
  };
  std::exception_ptr thrown;
  std::thread second([&] {
    try {
      loop(two, c.others);
    } catch (...) {
      thrown = std::current_exception();
      ready = 2;
    }
  });
  try {
    loop(one, c.frames);
  } catch (...) {
    thrown = std::current_exception();
    ready = 2;
  }
  second.join();
  if (thrown) std::rethrow_exception(thrown);
  if (other) return {"instances", "gives another result while a second instance runs"};
  return {};
}

// Makes and calls an instance of another case in between.
ConformanceFault between(const ConformanceCase& c, const CaseValues& answer,
                         const ConformanceCall& call, const ConformanceDiffer& differ) {
  for (const Case& other : c.provider.contract->cases) {
    if (other.name == c.source.name || other.size != "smoke") continue;
    const ResolvedCase resolved = resolve(*c.provider.contract, other, {});
    const CaseFrames frames(c.device, resolved,
                            make_inputs(resolved, c.options.seed, c.options.threads), {});
    const Support support = Instance::supports(c.provider, frames.meta());
    if (!support.ok) continue;
    Lone mine(c);
    Lone theirs(c, frames, support.need);
    theirs.execution.run(frames, Poison::ones);
    if (differ(answer, call(mine.execution, c.frames)))
      return {"instances", "gives something else after an instance of case " + other.name +
                               " was made and called; what belongs to an instance is global"};
    return {};
  }
  return {};
}

// Work that continues after the last call. A pool of waiting threads is allowed, and so is a short
// active wait.
ConformanceFault unfinished() {
  constexpr double kTooMuch = 0.1, kLongest = 3;  // seconds of the threads, and of the wall
  const double before = seconds_of_other_threads();
  const auto begin = std::chrono::steady_clock::now();
  while (working_threads()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    if (seconds_of_other_threads() - before > kTooMuch || passed.count() > kLongest)
      return {"threads", "threads go on working after every call has returned"};
  }
  return {};
}

}  // namespace

bool any_rank(const ConformanceCase& c, bool mine) {
  if (!c.provider.contract->comm()) return mine;
  return !c.options.comm->meeting().all_say("conformance", !mine);
}

ConformanceFault fault(const ConformanceCase& c, const CaseValues& answer,
                       const ConformanceCall& call, const ConformanceDiffer& differ,
                       const std::function<void(const std::string&)>& step) {
  const bool alone = c.provider.contract->comm() == nullptr;
  // All ranks continue, or none.
  const auto ends = [&](const ConformanceFault& found) { return any_rank(c, !found.rule.empty()); };
  if (!c.device.host_memory()) {
    ConformanceFault found = device_fault(c, differ, step);
    if (ends(found) || !alone) return found;
    step("after an aborted run");
    return after_aborted_run(c, answer, call, differ);
  }
  step("after the calls");
  if (ConformanceFault found = unfinished(); ends(found)) return found;
  step("many instances and calls");
  if (ConformanceFault found = leaks(c); ends(found)) return found;
  step("from another thread");
  if (ConformanceFault found = other_thread(c, answer, call, differ); ends(found)) return found;
  if (!alone) return {};
  step("after an aborted run");
  if (ConformanceFault found = after_aborted_run(c, answer, call, differ); !found.rule.empty())
    return found;
  step("two instances at once");
  if (ConformanceFault found = together(c, answer, call, differ); !found.rule.empty()) return found;
  step("beside an instance of another case");
  return between(c, answer, call, differ);
}

}  // namespace fk
