// SPDX-License-Identifier: Apache-2.0
// What a plugin must leave as it found it: floating point modes and signal mask of its thread,
// signal handlers, environment, working directory, timers, open files
// and child processes.
#pragma once
#include <csignal>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/float_modes.hpp"

namespace fk {

class ProcessState {
 public:
  // Of the calling thread and of the process.
  static ProcessState now();
  // Empty when `later` is the same, else what was changed, in a sentence.
  std::string changed_in(const ProcessState& later) const;
  // Puts back what concerns the calling thread's arithmetic and the signals.
  void put_back() const;

 private:
  struct Handler {
    void* function = nullptr;
    int flags = 0;
  };
  FloatModes float_modes_;
  sigset_t mask_{};
  std::vector<Handler> handlers_;  // by signal number
  bool timer_ = false, children_ = false;
  std::string directory_;
  std::vector<std::string> environment_;
  std::map<int, std::string> files_;  // what open descriptors point to
};

// From now on a process whose parent in this one's family ends becomes a child of this one, so that
// it is seen.
void adopt_orphans();

// Bytes that malloc has handed out in this process; 0 where that is not known.
int64_t allocated_bytes();

// How many other threads of this process compute, or would if they had a core.
int working_threads();
// The processor time that all other threads of this process have used, in seconds.
double seconds_of_other_threads();

}  // namespace fk
