// SPDX-License-Identifier: Apache-2.0
#include "core/cli/parallel.hpp"

#include <cstdlib>

#include "core/base/error.hpp"
#include "core/comm/meeting.hpp"
#include "core/worker/launch.hpp"
#include "core/worker/remote/leader.hpp"

namespace fk {

void add_parallel_options(const Options& app, Parallel& parallel) {
  app.add_option("--tp", parallel.tp, "tensor parallel: ranks between which layers are divided")
      .range(1, kRanksMax);
  app.add_option("--ep", parallel.ep, "expert parallel: ranks between which experts are divided")
      .range(1, kRanksMax);
  app.add_flag("--overlap", parallel.overlap,
               "with --tp: overlap all-reduces with matrix products in prefill");
}

void check_parallel(const Parallel& parallel) {
  for (const int64_t degree : {parallel.tp, parallel.ep})
    if (degree != 1 && degree != parallel.ranks())
      fail("--tp, --ep",
           std::to_string(parallel.tp) + " and " + std::to_string(parallel.ep) +
               " do not go together",
           "each is 1 or the number of ranks");
  if (parallel.overlap && parallel.tp == 1)
    fail("--overlap", "without tensor parallelism no products are added up between ranks",
         "--tp 2 or more");
}

void set_parallel(Limits& limits, const Parallel& parallel) {
  const bool wanted = limits.parallel.overlap && parallel.tp > 1;
  limits.parallel = parallel;
  if (wanted) limits.parallel.overlap = true;
}

std::optional<int> join_launch(const Parallel& parallel) {
  constexpr double kPatienceS = 30;
  const std::string key = take_from_environment(kLaunchKey);
  const auto launch = launch_from([](const char* name) { return std::getenv(name); });
  if (!launch) return std::nullopt;
  if (launch->size != parallel.ranks())
    fail(launch->by,
         "it started " + std::to_string(launch->size) + " processes, and there are to be " +
             std::to_string(parallel.ranks()) + " ranks",
         "--tp " + std::to_string(launch->size) + ", --ep " + std::to_string(launch->size) +
             ", or both");
  std::optional<LinkPlace> place;
  if (!launch->one_machine()) place = link_place(*launch, key);
  if (launch->local_rank > 0) return serve_agent(*launch, kPatienceS);
  const std::vector<int> here = await_agents(*launch, kPatienceS);
  if (launch->rank > 0) return lead_machine(*launch, *place, here, kPatienceS);
  if (place) await_machines(*launch, *place, here, kPatienceS);
  return std::nullopt;
}

}  // namespace fk
