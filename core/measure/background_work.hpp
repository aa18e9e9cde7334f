// SPDX-License-Identifier: Apache-2.0
// Finds work on a device for a stopped process: a device continues while the process is stopped.
// Such work delays others on the device. The end of the process shows whose work it was.
#pragma once
#include <functional>
#include <string>

#include "core/worker/rank_group.hpp"

namespace fk {

// Task of a worker, registered in core/cli: measures the device's delay of a tiny piece of work.
// The request is {"device": NAME}, with "ranks" for the devices of all ranks. The answer is
// {"seconds": S}.
inline constexpr const char* kIdleTask = "case_idle";
// Kind of failure of processes that were ended for this test, whatever it showed.
inline constexpr const char* kBusy = "busy";

// Evidence that the device works for these stopped processes; empty: none. `wait_s` measures the
// delay in another process (kIdleTask). If it is long `looks` times in a row, the processes are
// ended. They count as failed then, even if the end changes nothing and the result is empty.
std::string works_while_stopped(RankGroup& runners, const std::function<double()>& wait_s,
                                int looks);

}  // namespace fk
