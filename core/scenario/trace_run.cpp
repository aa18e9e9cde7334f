// SPDX-License-Identifier: Apache-2.0
#include "core/scenario/trace_run.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "core/base/error.hpp"
#include "core/device/device.hpp"
#include "core/device/rank_device.hpp"
#include "core/exec/ranking.hpp"
#include "core/scenario/memory_budget.hpp"
#include "core/worker/weight_block.hpp"

namespace fk {

namespace {

constexpr int64_t kTracedSteps = 128;   // of a workload; about 40,000 ops of a model of 32 layers
constexpr double kTracePatience = 300;  // seconds

struct NullFile {
  int fd = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  NullFile() {
    if (fd < 0) fail("/dev/null", "cannot be opened");
  }
  NullFile(const NullFile&) = delete;
  ~NullFile() { ::close(fd); }
};

class TraceRun {
 public:
  TraceRun(const Scenario& scenario, const RunOptions& options, const Catalog& catalog,
           const PluginSet& plugin_set, const RunReport& report)
      : scenario_(scenario), options_(options), plugin_set_(plugin_set), limits_(scenario.limits) {
    if (report.pages > 0) limits_.pages = report.pages;
    const auto model = scenario.make();
    result_bytes_ = result_bytes(*model, catalog, limits_);
    say("making the weights");
    weights_ = make_weight_blocks(*model, catalog, spec(), scenario.weights.string(), scenario.seed,
                                  [](int64_t, int64_t) {});
  }

  // The side's rounds; a failure ends them with a note.
  void trace(const CandidateGroup* group, ScenarioTrace& out) {
    const std::string name = group ? group->name : "baseline";
    say(name + " is traced");
    try {
      Runner::Options runner_options;
      runner_options.name = name;
      runner_options.device = options_.device;
      runner_options.sandbox = options_.sandbox;
      runner_options.patience_s = kTracePatience;
      runner_options.payload_bytes_max += result_bytes_;
      RankGroup runner(runner_options, static_cast<int>(limits_.parallel.ranks()));
      const auto need = [&](bool ok) {
        if (!ok) fail(name, runner.failed() ? runner.failure().sentence() : "no answer");
      };
      need(!runner.failed());
      std::vector<PluginFile> files = plugin_set_.baseline_files();
      SessionSpec own = spec();
      for (const auto* plugin : group ? group->plugins : std::vector<const FoundPlugin*>()) {
        files.push_back({plugin->path, Trust::candidate});
        own.policy.candidates.push_back(plugin_name(*plugin));
      }
      need(runner.load(files).has_value());
      need(runner.open(own, handles_of(weights_)).has_value());
      for (const Workload* workload : wanted_workloads(scenario_, options_.workloads))
        drive(runner, *workload, need,
              out.rounds.emplace_back(TracedRound{name, workload->name, {}, {}}));
      const auto recorded = runner.recorded();
      need(recorded.has_value());
      share(*recorded, name, out);
    } catch (const Error& error) {
      std::erase_if(out.rounds, [&](const TracedRound& round) { return round.side == name; });
      out.notes.push_back(std::string("not traced: ") + error.what());
    }
  }

 private:
  void say(const std::string& text) const {
    if (options_.progress) options_.progress(scenario_.name + ": " + text);
  }

  SessionSpec spec() const {
    SessionSpec spec{scenario_.arch, scenario_.config, limits_, {}, options_.device};
    spec.graphs = false;
    if (options_.device != "cpu") spec.decode_sizes = kDecodeSizes;
    spec.policy.pins = scenario_.providers;
    spec.policy.baselines = plugin_set_.ranked();
    spec.policy.ranking = ranking_of(open_device(options_.device)->name());
    return spec;
  }

  // The first requests, as many as stand in one batch.
  template <class Need>
  void drive(RankGroup& runner, const Workload& workload, const Need& need, TracedRound& out) {
    auto requests =
        make_requests(workload, scenario_.engine->form(), options_.requests_seed, workload.warmup);
    const auto batch = static_cast<size_t>(std::max<int64_t>(limits_.max_batch, 1));
    if (requests.size() > batch) requests.resize(batch);
    RoundOptions round_options;
    round_options.vocab_size = scenario_.engine->form().vocabulary;
    RecordOptions record;
    record.timed_steps = kTracedSteps;
    const std::vector<int> files(static_cast<size_t>(limits_.parallel.ranks()), nothing_.fd);
    need(runner.record(record, files, workload.name) && runner.clear() &&
         drive_round(runner, requests, round_options, out.round));
    for (const auto& [id, request] : out.round.requests)
      if (!request.failed.empty()) fail(out.side + " in " + workload.name, request.failed);
  }

  // Gives the recorded steps to the rounds of their workloads.
  static void share(const std::vector<Recording>& recorded, const std::string& side,
                    ScenarioTrace& out) {
    std::vector<NodeTimes> ranks;
    for (const Recording& one : recorded) {
      check_times(one.times);
      ranks.push_back(one.times);
    }
    for (TracedRound& round : out.rounds) {
      if (round.side != side) continue;
      for (const NodeTimes& all : ranks) {
        NodeTimes& own = round.ranks.emplace_back();
        own.phases = all.phases;
        std::ranges::copy_if(all.steps, std::back_inserter(own.steps),
                             [&](const TimedStep& s) { return s.workload == round.workload; });
      }
    }
    int64_t left_out = 0;
    for (const NodeTimes& all : ranks) left_out = std::max(left_out, all.left_out);
    if (left_out)
      out.notes.push_back("the first " + std::to_string(kTracedSteps) +
                          " steps of each workload are traced; " + std::to_string(left_out) +
                          " later ones of " + side + " are not");
  }

  const Scenario& scenario_;
  const RunOptions& options_;
  const PluginSet& plugin_set_;
  uint64_t result_bytes_ = 0;  // most of one result
  Limits limits_;              // the scenario's, with the run's pages
  std::vector<WeightBlock> weights_;
  NullFile nothing_;
};

std::vector<TracedOp> sums_of_ops(const std::vector<TracedRound>& rounds) {
  std::vector<TracedOp> out;
  std::map<std::tuple<std::string, std::string, std::string, std::string>, size_t> index;
  std::map<std::pair<std::string, std::string>, int64_t> steps;
  for (const TracedRound& round : rounds) {
    if (round.ranks.empty()) continue;
    const NodeTimes& times = round.ranks.front();
    for (const TimedStep& step : times.steps) {
      ++steps[{round.side, step.phase}];
      for (size_t i = 0; i < step.nodes.size(); ++i) {
        const TimedNode& node = times.phases.at(step.phase)[static_cast<size_t>(step.nodes[i])];
        const auto [it, fresh] =
            index.try_emplace({round.side, step.phase, node.op, node.provider}, out.size());
        if (fresh) out.push_back({round.side, step.phase, node.op, node.provider, 0, 0, 0});
        TracedOp& sum = out[it->second];
        ++sum.calls;
        sum.seconds += static_cast<double>(step.ns[2 * i + 1] - step.ns[2 * i]) * 1e-9;
      }
    }
  }
  for (TracedOp& sum : out) sum.steps = steps[{sum.side, sum.phase}];
  return out;
}

}  // namespace

ScenarioTrace trace_scenario(const Scenario& scenario, const RunOptions& options,
                             const Catalog& catalog, const PluginSet& plugin_set,
                             const RunReport& report) {
  ScenarioTrace out;
  if (report.baseline.verdict != "correct" || !report.error.empty()) {
    out.notes.push_back("not traced: the run did not end");
    return out;
  }
  const DeviceLock turn = devices_of_run(scenario, options);
  try {
    TraceRun run(scenario, options, catalog, plugin_set, report);
    run.trace(nullptr, out);
    Unusable left_out;
    for (const auto& group : candidate_groups(plugin_set, options, left_out)) {
      const auto same = [&](const SideReport& side) { return side.name == group.name; };
      const auto found = std::ranges::find_if(report.candidates, same);
      if (found != report.candidates.end() && found->verdict == "correct")
        run.trace(&group, out);
      else
        out.notes.push_back("not traced: " + group.name + " is not correct in this model");
    }
  } catch (const Error& error) {
    out.notes.push_back(std::string("not traced: ") + error.what());
  }
  out.ops = sums_of_ops(out.rounds);
  return out;
}

}  // namespace fk
