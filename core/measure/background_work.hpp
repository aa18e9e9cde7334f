// SPDX-License-Identifier: Apache-2.0
// Finds work on a device for a stopped process: a device continues while the process is stopped.
// Such work delays others on the device. The end of the process shows whose work it was.
#pragma once
#include <functional>
#include <string>

#include "core/worker/rank_group.hpp"

namespace fk {

// Task of a worker, registered in core/cli: the device's delay of a tiny piece of work, in seconds.
struct IdleWait {
  static constexpr const char* kName = "case_idle";
  using Answer = double;
  std::string device;
  int ranks = 0;  // the longest delay on the devices of so many ranks; 0: its own device
  FK_FIELDS(device, ranks)
};
// Kind of failure of processes that were ended for this test, whatever it showed.
inline constexpr const char* kBusy = "busy";

// Evidence that the device works for these stopped processes; empty: none. `wait_s` measures the
// delay in another process (IdleWait). If it is long `looks` times in a row, the processes are
// ended. They count as failed then, even if the end changes nothing and the result is empty.
std::string works_while_stopped(RankGroup& runners, const std::function<double()>& wait_s,
                                int looks);

}  // namespace fk
