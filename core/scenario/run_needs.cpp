// SPDX-License-Identifier: Apache-2.0
// Memory and time that a run needs, before it begins.
#include <algorithm>
#include <thread>

#include "core/base/error.hpp"
#include "core/base/machine.hpp"
#include "core/base/text.hpp"
#include "core/scenario/memory_budget.hpp"
#include "core/scenario/model_oracle.hpp"
#include "core/scenario/model_verdict.hpp"
#include "core/scenario/run.hpp"
#include "core/scenario/run_memory_budget.hpp"

namespace fk {

namespace {

// Operations per second of one core, about: an estimate, and no measurement.
constexpr double kCoreFlops = 1e10;
constexpr double kLongestSeconds = 3600;  // longer runs on a CPU are refused

struct RunNeeds {
  int64_t weights = 0, states = 0;  // bytes
  double seconds = 0;               // about
  int64_t bytes() const { return weights + states; }
};

int64_t tokens_of(const std::vector<Request>& requests) {
  int64_t all = 0;
  for (const auto& r : requests) all += static_cast<int64_t>(r.tokens.size()) + r.new_tokens;
  return all;
}

// The oracle and the baseline read the same weights; each has caches of its own.
RunNeeds needs_of(const Scenario& scenario, const RunOptions& options, const Catalog& catalog,
                  const std::vector<Request>& correctness, int64_t longest) {
  const auto model = scenario.make();
  const Limits& limits = scenario.limits;
  const Limits oracle = ModelOracle::limits_of(limits, longest, false);
  RunNeeds out;
  out.weights = weights_bytes(*model, catalog, oracle);
  const auto elements =
      static_cast<double>(out.weights) / static_cast<double>(bytes(limits.weights()));
  if (limits.parallel.ranks() > 1)
    out.weights += limits.parallel.ranks() * weights_bytes(*model, catalog, limits);
  out.states = states_bytes(*model, catalog, oracle) +
               limits.parallel.ranks() * states_bytes(*model, catalog, limits);
  // Two operations for each weight and token; experts that are not chosen count too.
  int64_t tokens = 2 * tokens_of(correctness);
  if (options.time_limit_s <= 0)
    for (const Workload* w : wanted_workloads(scenario, options.workloads))
      tokens += w->load->prompt_tokens() + w->load->output_tokens();
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  out.seconds = 2 * elements * static_cast<double>(tokens) / (kCoreFlops * cores);
  return out;
}

void need_pages(const Scenario& scenario, const RunOptions& options, const Catalog& catalog,
                int64_t longest) {
  const Limits& limits = scenario.limits;
  if (limits.pages <= 0) return;
  const auto model = scenario.make();
  if (!CacheRoom(*model, catalog, limits).has_pages()) return;
  // The last token of an answer is never cached.
  const int64_t least =
      (std::max<int64_t>(longest - 1, 1) + limits.page_size - 1) / limits.page_size;
  if (limits.pages >= least) return;
  fail(options.exact_pages ? "--pages" : scenario.file.string() + ": limits: pages",
       std::to_string(limits.pages) + " pages of " + std::to_string(limits.page_size) +
           " tokens cannot hold the longest request, which has " + std::to_string(longest) +
           " tokens",
       std::to_string(least) + " or more; 0: enough for all requests");
}

}  // namespace

void need_room(const Scenario& scenario, const RunOptions& options, const Catalog& catalog) {
  const auto correctness =
      scenario.engine->correctness_requests(scenario.limits, options.requests_seed);
  const int64_t longest =
      longest_request(correctness, wanted_workloads(scenario, options.workloads));
  need_pages(scenario, options, catalog, longest);
  if (room_of(options.device)) return;  // a device with its own memory: RunMemoryBudget
  const RunNeeds needs = needs_of(scenario, options, catalog, correctness, longest);
  const auto free = free_memory();
  const bool lacks = free && needs.bytes() > *free;
  if (!lacks && needs.seconds <= kLongestSeconds) return;
  fail_host(scenario.name,
            "the profile " + scenario.profile + " needs " + human_bytes(needs.bytes()) +
                " of memory on " + options.device + ", " + human_bytes(needs.weights) +
                " for weights and " + human_bytes(needs.states) + " for caches" +
                (free ? ", and " + human_bytes(*free) + " of memory are free" : "") +
                ". It would take about " + human_duration(needs.seconds) + " on " +
                std::to_string(std::thread::hardware_concurrency()) + " threads",
            scenario.profile == "full" ? "--profile tiny, or a GPU" : "smaller limits");
}

}  // namespace fk
