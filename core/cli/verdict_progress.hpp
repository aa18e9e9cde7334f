// SPDX-License-Identifier: Apache-2.0
// Progress of a verdict on stderr: each case as it ends, and the current step in between. Prints
// nothing for a verdict within two seconds.
#pragma once
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/cli/judged.hpp"
#include "core/report/progress.hpp"

namespace fk {

class VerdictProgress {
 public:
  VerdictProgress();
  ~VerdictProgress();
  // Any thread may call these functions while this object lives.
  JudgeProgress listener();
  void step(const std::string& what);
  void ended(const std::string& what);

 private:
  void tell();  // with mutex_ held

  const double start_s_;
  std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;
  std::string step_;
  double step_s_ = 0;               // begin of the step
  std::vector<std::string> ended_;  // not printed yet
  ProgressLine line_;
  std::thread clock_;  // reports during long steps
};

}  // namespace fk
