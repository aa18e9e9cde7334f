// SPDX-License-Identifier: Apache-2.0
// fk-host bench [OP]: correctness and time of every provider against the reference, one runner
// process per op.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/cli/output.hpp"
#include "core/cli/verb.hpp"
#include "core/referee/bench.hpp"
#include "core/referee/roster.hpp"
#include "core/report/table.hpp"
#include "core/worker/runner.hpp"
#include "core/worker/task.hpp"

namespace fk {
namespace {

struct Arguments {
  std::string op, json;
  BenchOptions options;
};

Json bench_task(const Json& arguments, const TaskServices& services) {
  BenchOptions options;
  options.size = arguments.at("size").get<std::string>();
  options.seconds = arguments.at("seconds").get<double>();
  options.providers = arguments.at("providers").get<std::vector<std::string>>();
  const auto op = arguments.at("op").get<std::string>();
  services.stage("bench of " + op);
  Json rows = Json::array();
  for (const auto& r : bench_op(services.plugins, op, options)) {
    rows.push_back({{"op", r.op},
                    {"case", r.case_name},
                    {"provider", r.provider},
                    {"why", r.why},
                    {"cold_s", r.cold_s},
                    {"cold_low_s", r.cold_low_s},
                    {"cold_high_s", r.cold_high_s},
                    {"warm_s", r.warm_s},
                    {"samples", r.samples},
                    {"bytes", r.bytes},
                    {"flops", r.flops},
                    {"of_copy", r.of_copy},
                    {"speedup", r.speedup}});
  }
  return rows;
}
FK_TASK(bench_op, bench_task);

std::string rate(double amount, double seconds, const char* unit) {
  if (seconds <= 0 || amount <= 0) return "";
  char text[32];
  std::snprintf(text, sizeof text, "%.3g %s", amount / seconds / 1e9, unit);
  return text;
}

Json run_op(const Arguments& a, const std::string& op, const Roster& roster) {
  Runner::Options options;
  options.name = "bench of " + op;
  options.patience_s = 120;
  Runner runner(options);
  std::vector<PluginFile> files;
  for (const auto& b : roster.baselines) files.push_back({b.path, b.trust});
  for (const auto& c : roster.candidates)
    if (c.error.empty()) files.push_back({c.path, c.trust});
  std::optional<Json> rows;
  if (!runner.failed() && runner.load(files)) {
    rows = runner.task("bench_op",
                       {{"op", op},
                        {"size", a.options.size},
                        {"seconds", a.options.seconds},
                        {"providers", a.options.providers}},
                       {});
  }
  if (rows && rows->is_array()) return *rows;
  const std::string why = runner.failed() ? runner.failure().sentence() : "the runner gave no rows";
  return Json::array({{{"op", op}, {"case", ""}, {"provider", ""}, {"why", why}}});
}

int bench(const Arguments& a, bool as_json) {
  if (a.options.size != "smoke" && a.options.size != "ci" && a.options.size != "full")
    fail("--size", "`" + a.options.size + "` is not a size of cases", "smoke, ci or full");
  const Catalog catalog(paths::registry_dirs());
  const Roster roster = Roster::find(catalog);
  std::vector<std::string> known = roster.ranked();
  for (const auto& c : roster.candidates)
    if (c.error.empty()) known.push_back(plugin_name(c));
  for (const auto& name : a.options.providers)
    if (std::find(known.begin(), known.end(), name) == known.end())
      fail("--provider", "there is no usable plugin `" + name + "`", did_you_mean(name, known));
  std::vector<std::string> ops;
  if (!a.op.empty())
    ops = {catalog.at(a.op).op};
  else
    for (const auto& op : catalog.ops())
      if (catalog.at(op).level == 1) ops.push_back(op);
  Json all = Json::array();
  bool good = true;
  const bool colour = colour_wanted(stdout);
  Table table({{"op"},
               {"case"},
               {"provider"},
               {"cold", Align::right},
               {"quartiles", Align::right},
               {"warm", Align::right},
               {"n", Align::right},
               {"bandwidth", Align::right},
               {"of copy", Align::right},
               {"compute", Align::right},
               {"x reference", Align::right},
               {""}});
  for (const auto& op : ops) {
    for (const auto& row : run_op(a, op, roster)) {
      const double cold = row.value("cold_s", 0.0);
      const std::string why = row.value("why", std::string());
      good &= why.empty() || starts_with(why, "refused");
      char speedup[32] = "", of_copy[32] = "";
      if (row.value("of_copy", 0.0) > 0)
        std::snprintf(of_copy, sizeof of_copy, "%.0f%%", 100 * row.value("of_copy", 0.0));
      if (row.value("speedup", 0.0) > 0)
        std::snprintf(speedup, sizeof speedup, "%.3g", row.value("speedup", 0.0));
      table.row({row.value("op", op), row.value("case", std::string()),
                 row.value("provider", std::string()), cold > 0 ? human_duration(cold) : "",
                 cold > 0 ? human_duration(row.value("cold_low_s", 0.0)) + "-" +
                                human_duration(row.value("cold_high_s", 0.0))
                          : "",
                 cold > 0 ? human_duration(row.value("warm_s", 0.0)) : "",
                 cold > 0 ? std::to_string(row.value("samples", 0)) : "",
                 rate(row.value("bytes", 0.0), cold, "GB/s"), of_copy,
                 rate(row.value("flops", 0.0), cold, "GFLOP/s"), speedup,
                 Cell(excerpt(why, 120), Style::bad)});
      all.push_back(row);
    }
  }
  if (as_json)
    print_json({{"schema", "fk-host.bench/1"}, {"size", a.options.size}, {"rows", all}}, a.json);
  else
    std::printf("%s", table.text(colour, 0).c_str());
  return good ? kExitOk : kExitFailed;
}

std::function<int()> add(CLI::App& app) {
  auto a = std::make_shared<Arguments>();
  app.add_option("OP", a->op, "one op; default: all of level 1");
  app.add_option("--provider", a->options.providers, "only these");
  app.add_option("--size", a->options.size, "full (the default), ci or smoke cases");
  app.add_option("--seconds", a->options.seconds, "about, per case and provider");
  auto* json = app.add_option("--json", a->json, "write JSON, to a file or to the standard output")
                   ->expected(0, 1);
  return [a, json] { return bench(*a, json->count() > 0); };
}

FK_VERB(bench, "correctness and time of every provider of an op", add);

}  // namespace
}  // namespace fk
