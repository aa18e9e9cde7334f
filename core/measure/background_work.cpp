// SPDX-License-Identifier: Apache-2.0
#include "core/measure/background_work.hpp"

#include "core/base/text.hpp"

namespace fk {

std::string works_while_stopped(RankGroup& runners, const std::function<double()>& wait_s,
                                int looks) {
  constexpr double kIdle = 150e-6, kTimes = 4, kGone = 5;
  double with = 0;
  for (int i = 0; i < looks; ++i)
    if (with = wait_s(); with < kIdle) return "";
  runners.condemn(kBusy, "work goes on while its process is stopped");
  runners.wait_for_end(kGone);
  const double without = wait_s();
  if (with < kTimes * without) return "";
  return "a second process waits " + human_duration(with) + " for next to nothing, and " +
         human_duration(without) + " when it has ended";
}

}  // namespace fk
