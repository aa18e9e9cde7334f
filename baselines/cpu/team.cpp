// SPDX-License-Identifier: Apache-2.0
// The threads behind team.hpp. A fork publishes the work in atomic fields and rings each helper's
// bell. Threads then take parts until none is left, and a join waits for the last part. measure()
// times forks and wake-ups at the start; best() predicts with these times how many threads pay.
#include "team.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace fk::cpu {

namespace {

// A team must be predicted to take at most this share of one thread's time.
constexpr double kWorthwhile = 0.85;
// A helper spins before it sleeps for the time of a wake-up, within these bounds.
constexpr double kSpinLeastNs = 10e3, kSpinMostNs = 50e3;
// A measurement waits this long for a thread whose core is busy. The results are at most the two
// values below, the cost on a common machine.
constexpr double kLostNs = 500e3;
constexpr double kForkMostNs = 1e3, kWakeMostNs = 50e3;  // a fork's is per thread
// After a wait in vain the caller works alone for this multiple of the wait.
constexpr double kAlonePerLost = 20;
// A helper must have slept this long for a measured wake-up: then its core is idle, too.
constexpr double kAsleepNs = 30e3;
constexpr int kThreadsMax = 256, kPowers = 9;  // 2^8 is the last power of two

double now_ns() {
  return std::chrono::duration<double, std::nano>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Sleeps until wake(), if `word` has `value`. It may return early.
void sleep_while(std::atomic<uint32_t>& word, uint32_t value) {
  ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}
void wake(std::atomic<uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

// Spins until ready() is true or the time is over. Returns ready().
template <class Ready>
bool spin(double ns, const Ready& ready) {
  constexpr int kLooksPerClock = 16;
  for (const double end = now_ns() + ns;;) {
    for (int i = 0; i < kLooksPerClock; ++i) {
      if (ready()) return true;
      relax();
    }
    if (now_ns() > end) return ready();
  }
}

// Numbers of the cores that this process may use, at most kThreadsMax.
std::vector<int> usable_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  std::vector<int> cores;
  if (::sched_getaffinity(0, sizeof mask, &mask) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE && cores.size() < kThreadsMax; ++core)
    if (CPU_ISSET(core, &mask)) cores.push_back(core);
  return cores;
}

}  // namespace

class TeamThreads {
 public:
  using Call = Team::Call;

  int size_for(int most, int64_t parts, double work_ns) {
    most = static_cast<int>(std::min<int64_t>({most, parts, core_count()}));
    if (most < 2 || !ready()) return 1;
    const auto [awake_size, awake_ns] = best(most, work_ns, most);
    if (awake_size == 1) return 1;
    const double now = now_ns();
    if (now < alone_until_ns_) return 1;
    const auto [size, ns] = best(most, work_ns, awake(awake_size));
    const int chosen = size > 1 ? size : wake_up(awake_size, work_ns - awake_ns, now);
    if (chosen > 1) credit_ns_ = 0;
    last_end_ns_ = now + work_ns / chosen;
    return chosen;
  }

  void run(int size, int64_t parts, Call call, const void* body) {
    size = std::min(size, static_cast<int>(helpers_.size()) + 1);
    if (size < 2 || parts < 2 || busy_.exchange(true, std::memory_order_acquire)) {
      for (int64_t part = 0; part < parts; ++part) call(body, part, 0);
      return;
    }
    fork(size, parts, call, body);
    join();
    std::exception_ptr error = std::exchange(error_, nullptr);
    failed_ = false;
    busy_.store(false, std::memory_order_release);
    if (error) std::rethrow_exception(error);
  }

 private:
  struct alignas(128) Helper {
    std::atomic<uint32_t> bell{0};  // the count of works so far; a new value wakes the helper
    std::atomic<bool> asleep{false};
    std::atomic<int> core{0};  // the core that it moves to at its next work
  };
  struct Choice {
    int size;
    double ns;
  };

  int core_count() const { return static_cast<int>(cores_.size()); }

  // Starts the threads and measures, once. False while another thread does so.
  bool ready() {
    if (ready_.load(std::memory_order_acquire)) return true;
    if (busy_.exchange(true, std::memory_order_acquire)) return false;
    if (!ready_) start();
    busy_.store(false, std::memory_order_release);
    return ready_;
  }

  void start() {
    home_ = ::sched_getcpu();
    auto first = std::find(cores_.begin(), cores_.end(), home_);
    if (first == cores_.end()) first = cores_.begin();
    std::vector<int> order = cores_;
    std::rotate(order.begin(), order.begin() + (first - cores_.begin()), order.end());
    for (size_t i = 1; i < order.size(); ++i) {
      Helper& helper = *helpers_.emplace_back(std::make_unique<Helper>());
      helper.core = order[i];
      owner_[static_cast<size_t>(order[i])] = &helper;
    }
    for (size_t i = 0; i < helpers_.size(); ++i)
      std::thread([this, i] { help(*helpers_[i], static_cast<int>(i) + 1); }).detach();
    measure();
    ready_.store(true, std::memory_order_release);
  }

  // The loop of a helper thread: waits for its bell, then takes parts.
  [[noreturn]] void help(Helper& me, int thread) {
    for (uint32_t heard = 0;;) {
      const auto rung = [&] { return me.bell.load(std::memory_order_acquire) != heard; };
      if (!spin(spin_ns_.load(std::memory_order_relaxed), rung)) {
        me.asleep = true;
        while (!rung()) sleep_while(me.bell, heard);
        me.asleep = false;
      }
      heard = me.bell.load(std::memory_order_acquire);
      stand_on(me);
      while (take_part(thread)) continue;
    }
  }

  // Moves the calling helper to its core: the kernel's scheduler may have moved it.
  static void stand_on(const Helper& me) {
    const int core = me.core.load(std::memory_order_relaxed);
    if (core == ::sched_getcpu()) return;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    (void)::sched_setaffinity(0, sizeof one, &one);
  }

  // If the caller has moved to a helper's core, sends that helper to the caller's former core.
  void leave_core_to_caller() {
    const int here = ::sched_getcpu();
    if (here == home_ || here < 0 || here >= CPU_SETSIZE) return;
    Helper* const displaced = std::exchange(owner_[static_cast<size_t>(here)], nullptr);
    if (displaced) {
      displaced->core = home_;
      owner_[static_cast<size_t>(home_)] = displaced;
    }
    home_ = here;
  }

  // Publishes the work and rings the helpers. Only the owner of busy_ calls it.
  void fork(int size, int64_t parts, Call call, const void* body) {
    leave_core_to_caller();
    call_.store(call, std::memory_order_release);
    body_.store(body, std::memory_order_release);
    parts_.store(parts, std::memory_order_release);
    size_.store(size, std::memory_order_release);
    done_.store(0, std::memory_order_relaxed);
    left_.store(++generation_ << 32 | static_cast<uint64_t>(parts), std::memory_order_release);
    for (int i = 0; i + 1 < size; ++i) {
      Helper& helper = *helpers_[static_cast<size_t>(i)];
      helper.bell.fetch_add(1);
      if (helper.asleep) wake(helper.bell);
    }
  }

  // Takes parts, then waits for the parts of the others.
  void join() {
    double now = now_ns(), longest_ns = 0;
    while (take_part(0)) {
      const double before = std::exchange(now, now_ns());
      longest_ns = std::max(longest_ns, now - before);
    }
    await_others();
    // The others should finish within about one part's time. A longer wait means that another
    // process has taken a core. Then the caller works alone for a time, so that such waits remain a
    // small share.
    const double lost_ns = now_ns() - now - 2 * longest_ns - spin_ns_;
    if (lost_ns > 0) alone_until_ns_ = now_ns() + kAlonePerLost * lost_ns;
  }

  void await_others() {
    const auto parts = static_cast<uint32_t>(parts_.load(std::memory_order_relaxed));
    const auto all_done = [&] { return done_.load(std::memory_order_acquire) == parts; };
    if (spin(spin_ns_.load(std::memory_order_relaxed), all_done)) return;
    waits_ = true;
    for (uint32_t seen = done_; seen != parts; seen = done_) sleep_while(done_, seen);
    waits_ = false;
  }

  // Takes a part and runs it; false if none is left for this thread. The exchange succeeds only if
  // left_ has the same generation, so the fields read before belong to that work.
  bool take_part(int thread) {
    uint64_t left = left_.load(std::memory_order_acquire);
    for (;;) {
      const auto parts_left = static_cast<uint32_t>(left);
      const Call call = call_.load(std::memory_order_acquire);
      const void* const body = body_.load(std::memory_order_acquire);
      const int64_t parts = parts_.load(std::memory_order_acquire);
      if (parts_left == 0 || thread >= size_.load(std::memory_order_acquire)) return false;
      if (!left_.compare_exchange_weak(left, left - 1)) continue;
      try {
        call(body, parts - parts_left, thread);
      } catch (...) {
        if (!failed_.exchange(true)) error_ = std::current_exception();
      }
      if (done_.fetch_add(1) + 1 == static_cast<uint32_t>(parts) && waits_) wake(done_);
      return true;
    }
  }

  // Threads of a team of this size that are awake, the caller included.
  int awake(int size) const {
    int count = 1;
    for (int i = 0; i + 1 < size; ++i)
      count += !helpers_[static_cast<size_t>(i)]->asleep.load(std::memory_order_relaxed);
    return count;
  }

  // The size with the least predicted time, if `awake` threads need no wake-up.
  Choice best(int most, double work_ns, int awake) const {
    Choice least{1, kWorthwhile * work_ns};
    for (int power = 1, size = 1; size < most; ++power) {
      size = std::min(1 << power, most);
      const int asleep = std::max(0, size - awake);
      const double ns = work_ns / size + fork_ns_[static_cast<size_t>(power)] +
                        asleep * (call_ns_ + wake_ns_ / size);
      if (ns < least.ns) least = {size, ns};
    }
    return least;
  }

  // Decides if a team that pays only with awake threads is woken up. Each work that follows the
  // last one soon adds its gain to a credit. Returns `size` when the credit exceeds the cost of the
  // wake-up, else 1.
  int wake_up(int size, double gain_ns, double now) {
    const bool soon = now - last_end_ns_ < spin_ns_;
    credit_ns_ = (soon ? credit_ns_.load(std::memory_order_relaxed) : 0) + gain_ns;
    return credit_ns_ > wake_ns_ + (size - 1) * call_ns_ ? size : 1;
  }

  struct Meeting {
    double fork_ns, ns;  // until the fork returns; until all parts are done
  };
  // Measures a fork and a join: a part ends when all threads of the team have begun theirs.
  Meeting meet(int size) {
    std::atomic<int> here{0};
    const auto body = [&] {
      ++here;
      spin(kLostNs, [&] { return here.load(std::memory_order_relaxed) >= size; });
    };
    using Body = decltype(body);
    const double begin = now_ns();
    fork(
        size, size, [](const void* erased, int64_t, int) { (*static_cast<const Body*>(erased))(); },
        &body);
    const double forked = now_ns();
    join();
    return {forked - begin, now_ns() - begin};
  }

  // Takes the least of several measurements: other load must not decide for the whole life of this
  // process.
  void measure() {
    constexpr int kForks = 31, kWakes = 9;
    meet(core_count());  // every helper has started and moved to its core
    for (int power = 1, size = 1; size < core_count(); ++power) {
      size = std::min(1 << power, core_count());
      double& least = fork_ns_[static_cast<size_t>(power)];
      least = size * kForkMostNs;
      for (int i = 0; i < kForks; ++i) least = std::min(least, meet(size).ns);
    }
    wake_ns_ = call_ns_ = kWakeMostNs;
    for (int i = 0; i < kWakes; ++i) {
      spin(kLostNs, [&] { return helpers_[0]->asleep.load(); });
      spin(kAsleepNs, [] { return false; });
      const Meeting woken = meet(2);
      wake_ns_ = std::min(wake_ns_, woken.ns);
      call_ns_ = std::min(call_ns_, woken.fork_ns);
    }
    spin_ns_ = std::clamp(wake_ns_, kSpinLeastNs, kSpinMostNs);
    alone_until_ns_ = 0;  // waits during the measurement do not count
  }

  const std::vector<int> cores_ = usable_cores();
  std::vector<std::unique_ptr<Helper>> helpers_;  // of thread 1 and up
  std::atomic<bool> ready_{false}, busy_{false};  // busy_: a caller has the team
  int home_ = 0;                                  // the caller's core
  std::array<Helper*, CPU_SETSIZE> owner_{};      // of each core; null: none

  uint64_t generation_ = 0;
  std::atomic<Call> call_{nullptr};
  std::atomic<const void*> body_{nullptr};
  std::atomic<int64_t> parts_{0};
  std::atomic<int> size_{0};
  alignas(128) std::atomic<uint64_t> left_{0};  // generation << 32 | parts not yet taken
  alignas(128) std::atomic<uint32_t> done_{0};  // parts that are done; a futex of await_others()
  std::atomic<bool> waits_{false}, failed_{false};
  std::exception_ptr error_;

  std::array<double, kPowers> fork_ns_{};  // by the binary logarithm of the size
  double wake_ns_ = 0, call_ns_ = 0;       // for the last thread to finish; for the caller
  std::atomic<double> spin_ns_{kSpinLeastNs}, credit_ns_{0}, last_end_ns_{0}, alone_until_ns_{0};
};

Team::Team() : threads_(new TeamThreads) {}

Team& Team::of_process() {
  static Team* const team = new Team;
  return *team;
}

int Team::measured_size_for(int most, int64_t parts, double work_ns) {
  return threads_->size_for(most, parts, work_ns);
}

void Team::run_erased(int size, int64_t parts, Call call, const void* body) {
  threads_->run(size, parts, call, body);
}

}  // namespace fk::cpu
