// SPDX-License-Identifier: Apache-2.0
// The threads of this process that share the work of an op, and the choice of their number.
//
// A thread of the team spins for some microseconds before it sleeps. Work is cut into parts. A free
// thread takes the next part, so the caller never waits for a thread that has not begun. No two
// threads of the team share a core. OpenMP cannot do this: it ends threads when a team gets
// smaller, and its callers wait for every thread.
#pragma once
#include <cstdint>

namespace fk::cpu {

class Team {
 public:
  // [any thread]
  static Team& of_process();

  // The number of threads, at most `most`, that ends the work soonest; 1 where a team does not pay.
  // `work_ns` is the time of one thread alone. The first call with enough work starts the threads
  // and measures the cost of a fork and a join, in about a millisecond. [forward]
  static int size_for(int most, int64_t parts, double work_ns) {
    return work_ns < kLeastWorkNs ? 1 : of_process().measured_size_for(most, parts, work_ns);
  }

  // Calls body(part, thread) for each part of [0, parts) on at most `size` threads. Returns when
  // all parts are done, and throws the first exception of a part. Thread 0 is the caller. While
  // another caller has the team, this one works alone. [forward]
  template <class Body>
  static void run(int size, int64_t parts, const Body& body) {
    if (size < 2) {
      for (int64_t part = 0; part < parts; ++part) body(part, 0);
      return;
    }
    of_process().run_erased(
        size, parts,
        [](const void* erased, int64_t part, int thread) {
          (*static_cast<const Body*>(erased))(part, thread);
        },
        &body);
  }

 private:
  // For shorter work one thread is quicker on any machine. Then size_for() does not read the team's
  // memory, which may be cold.
  static constexpr double kLeastWorkNs = 2000;

  using Call = void (*)(const void* body, int64_t part, int thread);
  friend class TeamThreads;
  Team();
  int measured_size_for(int most, int64_t parts, double work_ns);
  void run_erased(int size, int64_t parts, Call call, const void* body);
  class TeamThreads* const threads_;  // never destroyed: a thread may outlive static objects
};

}  // namespace fk::cpu
