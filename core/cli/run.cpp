// SPDX-License-Identifier: Apache-2.0
// fk-host run SCENARIO: the main job.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "core/base/error.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/cli/candidate.hpp"
#include "core/cli/output.hpp"
#include "core/cli/parallel.hpp"
#include "core/cli/verb.hpp"
#include "core/device/device.hpp"
#include "core/report/progress.hpp"
#include "core/report/run_text.hpp"
#include "core/report/table.hpp"
#include "core/report/trace_events.hpp"
#include "core/scenario/checkpoint_fit.hpp"
#include "core/scenario/run.hpp"
#include "core/scenario/trace_run.hpp"
#include "core/worker/process.hpp"

namespace fk {
namespace {

struct RunArguments {
  std::string scenario, profile, weights, trace;
  JsonOutput json;
  std::vector<std::string> pins;
  RunOptions options;
  Parallel parallel;
  uint64_t seed = 0;
  int64_t max_batch = 0, pages = -1;  // defaults: as in the scenario
  bool has_seed = false, has_requests_seed = false, no_graph = false;
};

bool is_gpu(const std::string& device) { return starts_with(device, "cuda"); }

// Full sizes with a GPU, tiny ones without.
void set_defaults(RunArguments& a) {
  if (a.options.device.empty()) {
    a.options.device = "cpu";
    for (const auto& device : device_names())
      if (is_gpu(device) && a.options.device == "cpu") a.options.device = device;
  }
  if (a.no_graph && !is_gpu(a.options.device))
    fail("--no-graph", "there are no CUDA graphs on the device " + a.options.device);
  a.options.graphs = !a.no_graph;
  // `run --json scenarios/x.yaml` means the scenario, not a file to overwrite.
  if (ends_with(a.json.word(), ".yaml"))
    fail("--json", "will not write over " + a.json.word(), "put it last");
}

Scenario load(const std::filesystem::path& file, const RunArguments& a, const Catalog& catalog,
              const PluginSet& plugin_set) {
  Scenario scenario = load_scenario(
      file, a.profile.empty() ? usual_profile(file, is_gpu(a.options.device)) : a.profile);
  if (a.has_seed) scenario.seed = a.seed;
  if (!a.weights.empty()) scenario.weights = a.weights;
  fit_weights(scenario, catalog);
  set_parallel(scenario.limits, a.parallel);
  if (a.max_batch > 0) scenario.limits.max_batch = a.max_batch;
  if (a.pages >= 0) scenario.limits.pages = a.pages;
  for (const auto& text : a.pins) pin(scenario, text, catalog, plugin_set);
  return scenario;
}

std::string profile_note(const Scenario& scenario, const std::filesystem::path& file,
                         const Catalog& catalog) {
  if (scenario.profile != "tiny" || usual_profile(file, true) != "full") return {};
  const std::string note =
      "The tiny profile has the real model's structure at a small size. Answers are judged, speed "
      "is not.\n  --profile full ";
  try {
    return note + "needs " + full_profile_needs(load_scenario(file, "full"), catalog) + ".";
  } catch (const Error& error) {  // the full profile was not requested
    return note + "cannot be had: " + excerpt(error.what(), 300) + ".";
  }
}

// The worse of two exit codes: a failing environment says nothing about candidates.
int worse(int a, int b) { return std::max(a, b); }

// The trace of one more scenario; its sums go to the report.
void trace(const Scenario& scenario, const RunArguments& a, const Catalog& catalog,
           const PluginSet& plugin_set, RunReport& report, TraceEvents& events) {
  ScenarioTrace found = trace_scenario(scenario, a.options, catalog, plugin_set, report);
  for (const auto& note : found.notes)
    std::fprintf(stderr, "fk-host: %s: %s\n", scenario.name.c_str(), excerpt(note, 600).c_str());
  add_trace(found, scenario.name, events);
  report.traced = std::move(found.ops);
}

int run(RunArguments a) {
  set_defaults(a);
  check_parallel(a.parallel);
  if (const auto code = join_launch(a.parallel)) return *code;
  a.json.open();
  a.options.pictures = a.json.makes_page();
  if (!a.trace.empty()) need_writable(a.trace);
  a.json.attach("", a.trace);
  wake_up_quickly();
  const Catalog catalog(paths::registry_dirs());
  const auto files = scenario_files(find_scenario(a.scenario));
  PluginSet plugin_set = PluginSet::find(catalog);
  plugin_set.take_in(a.options.candidates, catalog);
  std::vector<RunReport> reports;
  TraceEvents events;
  int code = kExitOk;
  for (const auto& c : plugin_set.candidates)
    if (a.options.wants(c))
      if (const std::string stale = stale_build(c.path); !stale.empty())
        std::fprintf(stderr, "fk-host: %s\n", excerpt(stale, 1000).c_str());
  ProgressLine progress;
  a.options.progress = [&](const std::string& text) { progress.say(text); };
  for (const auto& file : files) {
    const Scenario scenario = load(file, a, catalog, plugin_set);
    // A candidate could contain the answers to a scenario's own requests.
    if (!a.has_requests_seed)
      a.options.requests_seed =
          plugin_set.candidates.empty() || a.has_seed ? scenario.seed : std::random_device{}();
    const std::string note = profile_note(scenario, file, catalog);
    RunReport report = run_scenario(scenario, a.options, catalog, plugin_set);
    report.note = note;
    report.weights_notes = scenario.weights_notes;
    code = worse(code, report.exit_code());
    if (!a.trace.empty()) trace(scenario, a, catalog, plugin_set, report, events);
    progress.clear();
    if (a.json.with_report())
      std::printf("%s%s", &file == &files.front() ? "" : "\n",
                  run_text(report, colour_wanted(stdout)).c_str());
    else if (!report.error.empty())
      std::fprintf(stderr, "fk-host: %s: %s\n", report.scenario.c_str(), report.error.c_str());
    std::fflush(stdout);
    if (a.json.given()) reports.push_back(std::move(report));
  }
  if (!a.trace.empty()) write_trace(events, a.trace);
  if (a.json.given())
    a.json.write(files.size() == 1 ? run_json(reports.front()) : runs_json(reports));
  return code;
}

std::function<int()> add_run(const Options& app) {
  auto a = std::make_shared<RunArguments>();
  a->options.device.clear();
  app.add_option("SCENARIO", a->scenario, "a file, or the name of a scenario").required();
  app.add_option("--profile", a->profile, "tiny or full; default: full with a GPU, else tiny");
  app.add_option("--candidate", a->options.candidates,
                 "only this candidate, by its name, folder or .so (may be repeated)")
      .one_at_a_time();
  app.add_option("--together", a->options.together,
                 "all candidates at the same time in the model, under this name in the report");
  app.add_option("--workload", a->options.workloads, "only this workload (may be repeated)")
      .one_at_a_time();
  app.add_option("--provider", a->pins, "OP=PLUGIN: provider that must run an op (may be repeated)")
      .one_at_a_time();
  a->json.declare(app);
  a->json.declare_views(app);
  a->json.declare_mlflow(app);
  app.add_option("--trace", a->trace,
                 "after the run, drive each workload once more with the times of every op, and "
                 "write Chrome trace events to a file (Perfetto opens it)");
  app.add_option("--device", a->options.device, "cpu, cuda:0; default: a GPU where there is one");
  app.add_flag("--no-graph", a->no_graph, "without CUDA graphs");
  app.add_flag("!--no-sandbox", a->options.sandbox,
               "run candidates without a sandbox, with all rights of this user");
  add_parallel_options(app, a->parallel);
  app.add_option("--max-batch", a->max_batch, "requests at the same time; default: the scenario's")
      .range(1, 65536);
  app.add_option(
         "--pages", a->pages,
         "of the cache on each rank; 0: enough for --max-batch requests of any length, or as "
         "many as a GPU has room for; default: the scenario's, or as many as it has room for")
      .range(0, int64_t{1} << 31);
  app.add_option("--weights", a->weights, "a checkpoint; default: random weights from the seed");
  const auto seed = app.add_option("--seed", a->seed, "of weights and requests");
  const auto requests =
      app.add_option("--requests-seed", a->options.requests_seed,
                     "of the requests alone; default: --seed, or with candidates one "
                     "that they cannot know, which the report tells");
  app.add_option("--time-limit", a->options.time_limit_s,
                 "start no further round after this many seconds per workload and candidate")
      .positive();
  app.add_option("--processes", a->options.processes,
                 "of each side, one after the other, that are timed; default: 6 on a CPU, 3 on a "
                 "GPU; more make the interval narrower")
      .range(2, 16);
  app.add_option("--patience", a->options.patience_s,
                 "seconds without a sign of life before a candidate is stopped; default: 20 times "
                 "the baseline's longest, at least 10")
      .positive();
  return [a, seed, requests] {
    a->has_seed = seed.given();
    a->has_requests_seed = requests.given();
    a->options.exact_pages = a->pages > 0;
    return run(*a);
  };
}

FK_VERB(run, "run a scenario: judge candidates inside a whole model", add_run);

}  // namespace
}  // namespace fk
