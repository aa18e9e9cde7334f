// SPDX-License-Identifier: Apache-2.0
// A device goes on while a process is stopped. What works there then makes others wait for their
// turn on it; whose it is shows when that process has ended.
#pragma once
#include <functional>
#include <string>

#include "core/worker/rank_group.hpp"

namespace fk {

// Of a runner: how long the device lets it wait for next to nothing. {"device": NAME}, and "ranks"
// for one that has the devices of all of them -> {"seconds": S}; core/cli registers it.
inline constexpr const char* kIdleTask = "case_idle";
// The kind of failure of who was ended for a look, whatever that has shown.
inline constexpr const char* kBusy = "busy";

// What shows that the device works for processes that stand still; empty: nothing does. `wait_s`
// asks somebody else (kIdleTask). Where one has to wait, `looks` times in a row, the processes are
// ended: they have failed afterwards, also where that makes no difference and nothing is told.
std::string works_while_stopped(RankGroup& runners, const std::function<double()>& wait_s,
                                int looks);

}  // namespace fk
