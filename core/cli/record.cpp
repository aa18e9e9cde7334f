// SPDX-License-Identifier: Apache-2.0
// fk-host record SCENARIO: records inputs of a whole model's nodes as cases for check and bench.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/cli/output.hpp"
#include "core/cli/parallel.hpp"
#include "core/cli/verb.hpp"
#include "core/cli/wait_for_device.hpp"
#include "core/device/device.hpp"
#include "core/device/rank_device.hpp"
#include "core/exec/capture_index.hpp"
#include "core/report/document.hpp"
#include "core/report/progress.hpp"
#include "core/report/run_text.hpp"
#include "core/report/table.hpp"
#include "core/scenario/checkpoint_fit.hpp"
#include "core/scenario/record.hpp"
#include "core/scenario/run.hpp"

namespace fk {
namespace {

struct RecordArguments {
  std::string scenario, profile, weights, out;
  JsonOutput json;
  std::vector<std::string> pins;
  RecordingOptions options;
  Parallel parallel;
  uint64_t seed = 0;
  double gib = 1;
  bool has_seed = false;
};

void print(const CaptureIndex& index, const std::string& folder) {
  const bool colour = colour_wanted(stdout);
  print_report(index.scenario + parallel_text({index.tp, index.ep, 0, index.overlap}) + ": " +
               index.dtype + ", profile " + index.profile + ", on " + index.device + ", " +
               (index.weights.random
                    ? "random weights: floats and expert routing are noise, not a trained model's\n"
                    : "weights of " + index.weights.from + "\n"));
  Table table({{"op"},
               {"phase"},
               {"calls", Align::right},
               {"shapes", Align::right},
               {"cases", Align::right}});
  for (const auto& op : index.ops)
    table.row({op.op, op.phase, std::to_string(op.calls), std::to_string(op.shapes),
               std::to_string(op.cases)});
  std::printf("%s", table.text(colour).c_str());
  int64_t limit = 0;
  std::string room;
  for (const auto& left : index.left_out) {
    const bool no_room = starts_with(left.why, "no room");
    if (no_room) room = left.why;
    if (no_room || starts_with(left.why, "other shapes"))
      limit += left.calls;
    else
      print_report("  left out: calls of " + left.op + ": " + left.why + "\n");
  }
  if (limit)
    print_report("  left out: " + human_count(limit) +
                 " calls with other shapes or contents; --limit keeps more" +
                 (room.empty() ? "" : ", " + room + "; --gib gives more") + "\n");
  print_report(std::to_string(index.cases.size()) + " cases, " + human_bytes(index.bytes) +
               " of tensors in " + folder + "\n");
}

int run(RecordArguments a) {
  a.json.open();
  if (a.options.device.empty()) {
    a.options.device = "cpu";
    for (const auto& device : device_names())
      if (starts_with(device, "cuda") && a.options.device == "cpu") a.options.device = device;
  }
  if (a.options.record.cases_max < 1) fail("--limit", "at least one case is kept");
  if (a.gib <= 0 || a.gib > 1 << 20) fail("--gib", "no room");
  a.options.record.bytes_max = static_cast<int64_t>(a.gib * (int64_t{1} << 30));
  const Catalog catalog(paths::registry_dirs());
  const auto files = scenario_files(find_scenario(a.scenario));
  if (files.size() != 1)
    fail(a.scenario, "it is a list of scenarios",
         "record one of them: " + files[0].stem().string());
  check_parallel(a.parallel);
  if (a.profile.empty()) a.profile = usual_profile(files.front(), a.options.device != "cpu");
  Scenario scenario = load_scenario(files.front(), a.profile);
  set_parallel(scenario.limits, a.parallel);
  if (a.has_seed) scenario.seed = a.seed;
  if (!a.weights.empty()) scenario.weights = a.weights;
  fit_weights(scenario, catalog);
  for (const auto& note : scenario.weights_notes) log_warn(scenario.name + ": " + note);
  const PluginSet plugin_set = PluginSet::find(catalog);
  for (const auto& text : a.pins) pin(scenario, text, catalog, plugin_set);
  a.options.folder = a.out.empty() ? std::filesystem::path("captured") / scenario.name
                                   : std::filesystem::path(a.out);
  const auto turn =
      wait_for_device(devices_of_ranks(a.options.device, static_cast<int>(a.parallel.ranks())),
                      DeviceLock::Use::computes);
  ProgressLine progress;
  a.options.progress = [&](const std::string& text) { progress.say(text); };
  const CaptureIndex index = record_scenario(scenario, a.options, catalog, plugin_set);
  progress.clear();
  if (a.json.given()) a.json.write(document(index));
  if (a.json.with_report()) print(index, a.options.folder.string());
  return kExitOk;
}

std::function<int()> add_record(const Options& app) {
  auto a = std::make_shared<RecordArguments>();
  a->options.device.clear();
  app.add_option("SCENARIO", a->scenario, "a file, or the name of a scenario").required();
  app.add_option("--op", a->options.record.ops, "only this op (may be repeated)").one_at_a_time();
  app.add_flag("--values", a->options.record.values, "floats too, weights among them");
  app.add_option("--weights", a->weights, "a checkpoint; default: random weights from the seed");
  app.add_option("--out", a->out, "the folder; default: captured/<scenario>");
  app.add_option("--limit", a->options.record.cases_max,
                 "cases of one op in one phase at most (8); a quarter of them with equal shapes");
  app.add_option("--gib", a->gib, "room for tensors, in GiB (1)");
  app.add_option("--workload", a->options.workloads, "only this workload (may be repeated)")
      .one_at_a_time();
  app.add_option("--requests", a->options.requests, "the first of every workload; default: all");
  app.add_option("--profile", a->profile, "tiny or full; default: full with a GPU, else tiny");
  app.add_option("--provider", a->pins, "OP=PLUGIN: provider that must run an op (may be repeated)")
      .one_at_a_time();
  app.add_option("--device", a->options.device, "cpu, cuda:0; default: a GPU where there is one");
  add_parallel_options(app, a->parallel);
  const auto seed = app.add_option("--seed", a->seed, "of weights and requests");
  a->json.declare(app,
                  "write the index: to a file beside the report, or in its place to the standard "
                  "output");
  return [a, seed] {
    a->has_seed = seed.given();
    return run(*a);
  };
}

FK_DOCUMENT(capture, CaptureIndex);
FK_VERB(record, "record real inputs of ops from a whole model", add_record, "capture");

}  // namespace
}  // namespace fk
