// SPDX-License-Identifier: Apache-2.0
// Finds work on a device for a stopped process: a device continues while the process is stopped.
// Such work delays others on the device. The end of the process shows whose work it was.
#pragma once
#include <functional>
#include <string>

#include "core/worker/rank_group.hpp"

namespace fk {

// A task of a worker: for how many seconds the device lets it wait for next to nothing.
struct IdleWait {
  static constexpr const char* kName = "case_idle";
  using Answer = double;
  std::string device;
  int ranks = 0;  // of one that has the devices of so many ranks; 0: its own device
  FK_FIELDS(device, ranks)
};
// Kind of failure of processes that were ended for this test, whatever it showed.
inline constexpr const char* kBusy = "busy";

// What shows that the device works for processes that stand still; empty: nothing does. `wait_s`
// asks somebody else (IdleWait). Where one has to wait, `looks` times in a row, the processes are
// ended: they have failed afterwards, also where that makes no difference and nothing is told.
std::string works_while_stopped(RankGroup& runners, const std::function<double()>& wait_s,
                                int looks);

}  // namespace fk
