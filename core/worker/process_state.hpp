// SPDX-License-Identifier: Apache-2.0
// State that a plugin must restore: floating-point modes and signal mask of its thread, signal
// handlers, environment, working directory, timers, open files and child processes.
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
  // The present state of the calling thread and of the process.
  static ProcessState now();
  // Empty when `later` is the same, else a sentence with the changes.
  std::string changed_in(const ProcessState& later) const;
  // Restores the calling thread's floating-point modes and the signals.
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
  std::map<int, std::string> files_;  // targets of open descriptors
};

// From now on, an orphaned descendant process becomes a child of this process, and so stays
// visible.
void adopt_orphans();

// Bytes allocated by malloc in this process; 0 where unknown.
int64_t allocated_bytes();

// Number of other threads of this process that run or are ready to run.
int working_threads();
// Processor time used by all other threads of this process, in seconds.
double seconds_of_other_threads();

}  // namespace fk
