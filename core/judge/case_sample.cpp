// SPDX-License-Identifier: Apache-2.0
// One sample of a case run. The oracle deals inputs to sets of buffers. A worker calls once on each
// set. Then the oracle compares the outputs.
#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/base/clock.hpp"
#include "core/base/cores.hpp"
#include "core/judge/case_run.hpp"
#include "core/judge/race/timing_penalty.hpp"
#include "core/judge/rank_buffers.hpp"

namespace fk {

namespace {

// Seconds that processes have waited for a core. Empty for a single rank on a device.
std::vector<double> waits_of(const RankGroup& runners, bool on_cpu) {
  std::vector<double> out;
  for (int r = 0; (on_cpu || runners.size() > 1) && r < runners.size(); ++r)
    out.push_back(waited_for_core_s(runners.pid(r)));
  return out;
}

}  // namespace

// One sample of a side.
struct CaseRun::Sample {
  CandidateClient& client;
  const int first;
  const std::vector<int>& contents;
  const std::vector<int> sets;  // one for each content
  const SampleOptions& options;
  const bool of_candidate;
  const bool singly;  // each set has a graph of its own: CandidateServer::run_warm()
  int count() const { return static_cast<int>(contents.size()); }
};

void CaseRun::enter(const SampleOptions& options, const char* part) {
  if (options.flush) spent_.enter(std::string("timing") + part);
}

std::optional<CandidateClient::Call> CaseRun::take(CandidateClient& client, int first,
                                                   const std::vector<int>& contents,
                                                   std::vector<Look>& looks,
                                                   const SampleOptions& options) {
  room_.budget().need();
  const int count = static_cast<int>(contents.size());
  const Sample sample{.client = client,
                      .first = first,
                      .contents = contents,
                      .sets = ring(first, count),
                      .options = options,
                      .of_candidate = &client == &candidate_,
                      .singly = options.way == SampleOptions::Way::warm && !on_cpu()};
  if (!deal(sample)) return std::nullopt;
  enter(options, ": calls");
  const auto call = timed_calls(sample);
  if (!call) return std::nullopt;
  looks = looked_at(sample);
  enter(options, "");
  return call;
}

// Lays contents into the sets. Before that, the client captures its graphs and makes its own memory
// cold, where that is wanted. False when it failed.
bool CaseRun::deal(const Sample& sample) {
  const SampleOptions& options = sample.options;
  const std::vector<int>& sets = sample.sets;
  const bool spare = sample.of_candidate && sample.count() < facts_.sets;
  const int after = sample.first + sample.count();
  CaseDeal deal{.case_run = case_run_->id,
                .sets = sets,
                .contents = sample.contents,
                .poison = poison_ % 2 == 1,
                .numbers_only = true,
                .beside = -1,
                .beside_content = some_contents(after, 1, Of::all)[0]};
  // A worker is stopped outside of its own turns. So it cannot watch the deal, or slow the other
  // side.
  CandidateClient& client = sample.client;
  RankGroup& runners = client.runners();
  enter(options, ": contents");
  runners.freeze();
  // A graph is captured with numbers of other contents.
  std::vector<std::vector<int>> graphs;
  if (!sample.singly) graphs.push_back(sets);
  for (size_t i = 0; sample.singly && i < sets.size(); ++i) graphs.push_back({sets[i]});
  const bool armed = std::all_of(graphs.begin(), graphs.end(),
                                 [&](const auto& graph) { return client.armed(graph); });
  const bool ahead = facts_.plan || (!on_cpu() && !armed);
  if (ahead) room_.ask(deal);
  if (ahead || options.all_cold || (options.flush && client.keeps)) {
    enter(options, ": graphs and own memory");
    const bool once = options.all_cold && !sample.of_candidate;
    for (const auto& graph : graphs) {
      runners.thaw();  // a worker is stopped after each answer
      if (!client.arm(case_run_->id, facts_.plan, graph, graph.empty() ? sample.first : graph[0],
                      static_cast<int>(graph.size()), options.all_cold, once))
        return false;
    }
    runners.freeze();
    enter(options, ": contents");
  }
  deal.numbers_only = false;
  deal.flush = options.flush;
  deal.flush_all = options.way == SampleOptions::Way::cold;
  if (spare) deal.beside = ring(after, 1)[0];
  room_.ask(deal);
  return true;
}

// Lets the client call, by both clocks. Nothing when it failed.
std::optional<CandidateClient::Call> CaseRun::timed_calls(const Sample& sample) {
  using Way = SampleOptions::Way;
  const Way way = sample.options.way;
  const int core = sample.options.core;
  RankGroup& runners = sample.client.runners();
  // A device may still work after its process reports the end.
  std::optional<JudgePool::Standby> turn;
  if (!on_cpu()) turn.emplace(room_, CaseTurn{case_run_->id, sample.sets});
  if (core >= 0 && on_cpu() && runners.size() == 1)
    leave_core_to_first_thread(runners.pid(0), core);
  // The clock starts before the message, so work that starts at once is on it.
  double since = now_seconds(), early_s = 0;
  const double worked = runners.worked_s();
  const std::vector<double> waited = waits_of(runners, on_cpu());
  runners.thaw();
  if (way == Way::late) {
    std::this_thread::sleep_for(std::chrono::duration<double>(sample.options.pause_s));
    // Each thread works a little to continue and to wait again.
    const double waking = 50e-6 * runners.size() + 20e-6 * runners.threads();
    early_s = std::max(0.0, runners.worked_s() - worked - waking);
    since = now_seconds();
  }
  const auto done = [&] {
    if (turn) turn->go();
  };
  auto call = sample.client.run(case_run_->id, sample.first, sample.count(), since, core,
                                sample.singly, way == Way::eager, done);
  if (!call) return std::nullopt;
  call->early_s = early_s;
  if (sample.of_candidate && call->facts && kernel_of_library_.empty())
    kernel_of_library_ = call->facts->of_library;
  enter(sample.options, ": answers");
  if (turn) {
    turn->wait();
    call->wall_s = now_seconds() - since;
  }
  runners.freeze();
  // Work after the answer counts until all threads are stopped: at most the worked time beyond the
  // claim. The baseline has some as well.
  const double stopping = now_seconds() - (since + call->wall_s);
  const double unclaimed = runners.worked_s() - worked - call->own_s * sample.count();
  call->wall_s += std::clamp(unclaimed, 0.0, std::max(0.0, stopping));
  const std::vector<double> waits = waits_of(runners, on_cpu());
  for (size_t r = 0; r < waits.size(); ++r)
    call->waited_s = std::max(call->waited_s, waits[r] - waited[r]);
  return call;
}

// The oracle's findings on the outputs, one for each set.
std::vector<CaseRun::Look> CaseRun::looked_at(const Sample& sample) {
  const int side = sample.of_candidate ? kCandidateSide : side_of_baseline(sample.client.plugin());
  auto found = room_.ask(CaseLook{case_run_->id, sample.sets, side, sample.options.words});
  std::vector<Look> looks(sample.contents.size());
  for (size_t i = 0; i < looks.size(); ++i) looks[i].content = sample.contents[i];
  for (auto& [at, finding] : found) {
    if (at >= looks.size()) break;
    Look& look = looks[at];
    finding.content = look.content;
    finding.worst = error_from(finding.worst);
    look = std::move(finding);
    // The oracle compares nothing after the first wrong set.
    if (!look.ok) looks.resize(at + 1);
  }
  return looks;
}

int CaseRun::side_of_baseline(const std::string& plugin) {
  const auto known = std::find(baselines_.begin(), baselines_.end(), plugin);
  const auto at = static_cast<int>(known - baselines_.begin());
  if (known == baselines_.end()) baselines_.push_back(plugin);
  return kCandidateSide + 1 + at;
}

}  // namespace fk
