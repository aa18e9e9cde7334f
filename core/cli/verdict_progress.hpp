// SPDX-License-Identifier: Apache-2.0
// What a verdict says on stderr while it is made: each case as it ends, and between them what is
// being done. A verdict that is there within two seconds says nothing.
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
  // Both functions may be called by any thread, and no longer than this object lives.
  JudgeProgress listener();

 private:
  void step(const std::string& what);
  void ended(const std::string& what);
  void tell();  // with mutex_

  const double start_s_;
  std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;
  std::string step_;
  double step_s_ = 0;               // when it began
  std::vector<std::string> ended_;  // that were not printed yet
  ProgressLine line_;
  std::thread clock_;  // a long step says nothing itself
};

}  // namespace fk
