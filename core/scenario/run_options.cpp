// SPDX-License-Identifier: Apache-2.0
// Checks and defaults of a run's options.
#include <algorithm>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/device/device.hpp"
#include "core/device/rank_device.hpp"
#include "core/scenario/run.hpp"
#include "core/scenario/verify.hpp"

namespace fk {

void pin(Scenario& scenario, const std::string& text, const Catalog& catalog,
         const PluginSet& plugin_set) {
  const auto parts = split(text, '=');
  if (parts.size() != 2 || parts[0].empty() || parts[1].empty())
    fail("--provider", "`" + excerpt(text) + "` is not OP=PLUGIN");
  auto& provider = scenario.providers[catalog.at(parts[0]).op];
  need_known({parts[1]}, plugin_set.ranked(), "--provider", "baseline");
  provider = parts[1];
}

void check_run(const Scenario& scenario, const RunOptions& options, const PluginSet& plugin_set) {
  std::vector<std::string> candidates, workloads;
  for (const auto& found : plugin_set.candidates) candidates.push_back(plugin_name(found));
  for (const auto& workload : scenario.workloads) workloads.push_back(workload.name);
  need_known(options.candidates, candidates, "--candidate", "candidate");
  need_known(options.workloads, workloads, "--workload", "workload");
  if (options.together == "baseline") fail("--together", "the name `baseline` is the other side's");
  if (options.processes > 0 && !judges_speed(scenario))
    fail("--processes", "the profile " + scenario.profile + " is not judged by speed",
         "take --profile full");
  open_device(options.device);
  const Parallel& parallel = scenario.limits.parallel;
  if (const std::string why = scenario.make()->refusal(parallel); !why.empty())
    fail(scenario.arch, why);
  need_communicator(parallel.ranks(), options.device);
  if (plugin_set.oracle_files().empty())
    fail("plugins", "there is no reference provider to judge with",
         "build the target plugin_reference, or set FK_PLUGIN_PATH");
}

std::string order_text(const std::map<std::string, std::string>& pins, const Ranking& ranking,
                       const std::vector<OpRow>& ops, const std::vector<std::string>& baselines) {
  std::vector<std::string> named, ranked, unknown;
  for (const OpRow& row : ops) {
    auto* const into = pins.count(row.op) ? &named : ranking.count(row.op) ? &ranked : nullptr;
    if (into && !contains(*into, row.op)) into->push_back(row.op);
  }
  std::string out = "Order of providers: ";
  constexpr size_t kNamesMost = 6;
  const auto list = [](const std::vector<std::string>& of) {
    return of.size() > kNamesMost ? std::to_string(of.size()) + " ops" : join(of, ", ");
  };
  if (!named.empty()) out += "the scenario or --provider for " + list(named) + "; ";
  if (!ranked.empty()) out += "the device's ranking for " + list(ranked) + "; ";
  out += (named.empty() && ranked.empty() ? "no ranking; " : "else ") +
         std::string("the host's own by name, then those of FK_PLUGIN_PATH.");
  for (const std::string& op : ranked)
    for (const RankedProviders& by_size : ranking.at(op))
      for (const std::string& name : by_size.providers)
        if (!contains(baselines, name) && !contains(unknown, name)) unknown.push_back(name);
  if (!unknown.empty())
    out += " The ranking also names " + join(unknown, ", ") + ", which is no usable baseline here.";
  return out;
}

SideReport CandidateGroup::report() const {
  SideReport r;
  r.name = name;
  for (const auto* plugin : plugins) r.plugins.push_back(plugin_name(*plugin));
  if (plugins.size() == 1) {
    r.version = plugins[0]->note.version;
    r.path = plugins[0]->path.string();
  }
  r.verdict = "refused";
  r.why = refused;
  return r;
}

std::vector<CandidateGroup> candidate_groups(const PluginSet& plugin_set, const RunOptions& options,
                                             Unusable& left_out) {
  std::vector<CandidateGroup> groups;
  for (const auto& found : plugin_set.candidates)
    if (options.wants(found)) groups.push_back({plugin_name(found), found.error, {&found}});
  if (options.together.empty() || groups.empty()) return groups;
  CandidateGroup all{options.together, "", {}};
  for (const auto& group : groups)
    if (group.refused.empty()) all.plugins.push_back(group.plugins.front());
  if (all.plugins.empty()) return {{options.together, groups[0].refused, groups[0].plugins}};
  for (const auto& group : groups)
    if (!group.refused.empty())
      left_out.push_back({group.plugins.front()->path.string(), group.refused});
  return {all};
}

int timed_processes(const Scenario& scenario, const RunOptions& options) {
  // The interval of two processes is 13 standard errors wide on each side, of three 4.3, of six
  // 2.6. GPU processes take seconds to start, and differ less.
  constexpr int kOnCpu = 6, kOnGpu = 3;
  if (!judges_speed(scenario)) return 1;
  if (options.processes > 0) return options.processes;
  return options.device == "cpu" ? kOnCpu : kOnGpu;
}

std::string nccl_setting(int64_t ranks, const std::string& device) {
  if (ranks < 2 || device.rfind("cuda", 0) != 0) return "";
  const bool off = environment("NCCL_NVLS_ENABLE", "0") == "0";  // as core/comm/cuda/nccl.cpp
  return off ? "without NVLink multicast" : "with NVLink multicast";
}

DeviceLock devices_of_run(const Scenario& scenario, const RunOptions& options) {
  const int64_t ranks = scenario.limits.parallel.ranks();
  return DeviceLock(devices_of_ranks(options.device, ranks > 1 ? ranks_here(ranks) + 1 : 1), [&] {
    if (options.progress) options.progress(scenario.name + ": waiting for others on the device");
  });
}

std::vector<const Workload*> wanted_workloads(const Scenario& scenario,
                                              const std::vector<std::string>& names) {
  std::vector<const Workload*> list;
  for (const auto& w : scenario.workloads)
    if (names.empty() || contains(names, w.name)) list.push_back(&w);
  return list;
}

int64_t longest_request(const std::vector<Request>& correctness,
                        const std::vector<const Workload*>& workloads) {
  int64_t longest = 1;
  for (const auto& r : correctness)
    longest = std::max(longest, static_cast<int64_t>(r.tokens.size()) + r.new_tokens);
  for (const Workload* w : workloads) longest = std::max(longest, w->load->longest());
  return longest;
}

}  // namespace fk
