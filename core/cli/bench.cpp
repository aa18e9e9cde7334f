// SPDX-License-Identifier: Apache-2.0
// fk-host bench [OP]: values, and times against the first provider, with a process per op.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "core/base/error.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/cases/captured.hpp"
#include "core/cases/routing.hpp"
#include "core/check/bench.hpp"
#include "core/check/plugin_set.hpp"
#include "core/cli/candidate.hpp"
#include "core/cli/judged.hpp"
#include "core/cli/output.hpp"
#include "core/cli/verb.hpp"
#include "core/cli/wait_for_device.hpp"
#include "core/device/rank_device.hpp"
#include "core/judge/plan/case_plan.hpp"
#include "core/plugin/discover.hpp"
#include "core/plugin/notes.hpp"
#include "core/report/check_documents.hpp"
#include "core/report/table.hpp"
#include "core/worker/rank_group.hpp"
#include "core/worker/task.hpp"

namespace fk {
namespace {
struct BenchArguments {
  std::string what, json, device = "cpu", secret, captured, routing, receipt;
  std::vector<std::string> ops, families, variants, dtypes;  // for a candidate
  double patience_s = 20, budget_s = Policy().budget_s;
  bool sandbox = true, fresh = false, no_store = false, build = false, profile = false;
  bool thorough = false;
  BenchOptions options;
};

// Times the providers of one op. Each row comes as news; the answer is the device's name.
struct BenchOp {
  static constexpr const char* kName = "bench_op";
  using Answer = std::string;
  std::string op, size;
  double seconds = 0;
  std::string device, captured;
  double skew = 0;
  bool graphs = true;
  std::vector<std::string> cases, providers;
  FK_FIELDS(op, size, seconds, device, captured, skew, graphs, cases, providers)
};

std::string bench_task(const BenchOp& asked, const TaskServices& services) {
  BenchOptions options;
  const auto device = open_device(device_of_rank(asked.device, services.local_rank));
  const auto comm = services.communicator(*device);
  options.device = device.get();
  if (!device->host_memory())
    options.threads = static_cast<int>(std::max(2u, std::thread::hardware_concurrency()));
  options.size = asked.size;
  options.seconds = asked.seconds;
  options.graphs = asked.graphs;
  options.providers = asked.providers;
  options.cases = asked.cases;
  options.comm = comm.get();
  options.skew = asked.skew;
  std::vector<Case> cases;
  if (!asked.captured.empty()) {
    const Captured captured = Captured::open(asked.captured, services.catalog);
    cases = captured.cases(asked.op);
    options.captured = &cases;
    options.captured_random = captured.random_weights();
  }
  options.on_row = [&](const BenchRow& row) { services.progress(to_fields(row)); };
  options.on_step = [&](const std::string& what) { services.stage(what); };
  bench_op(services.plugins, asked.op, options);
  return device->name();
}
FK_TASK(bench_task);
FK_DOCUMENT(bench, BenchDocument);

std::string rate(double amount, double seconds, double unit) {
  if (seconds <= 0 || amount <= 0) return "";
  char text[32];
  const double value = amount / seconds / unit;
  std::snprintf(text, sizeof text, value >= 100 ? "%.0f" : "%.3g", value);
  return text;
}

std::string percent(double share) {
  if (share <= 0) return "";
  char text[32];
  std::snprintf(text, sizeof text, share < 0.1 ? "%.1f%%" : "%.0f%%", 100 * share);
  return text;
}

// A row of a whole op that has no times.
BenchRow row_without_times(const std::string& op, const std::string& why) {
  BenchRow row;
  row.op = op;
  row.why = why;
  return row;
}

// Reports rows as they come, so that a crash loses none. `device` gets the worker's name for it.
std::vector<BenchRow> run_op(const BenchArguments& a, const std::string& op,
                             const PluginSet& plugin_set, int ranks, std::string& device,
                             std::vector<Protection>& protections) {
  // Ranks that share a device would wait for each other's lock.
  const std::string kind = a.device.substr(0, a.device.find(':'));
  const auto count = std::ranges::count_if(
      device_names(), [&](const auto& d) { return starts_with(d, kind + ":"); });
  if (ranks > 1 && kind != "cpu" && ranks > count)
    return {row_without_times(op, "left out: " + std::to_string(ranks) + " ranks on " +
                                      std::to_string(count) + " devices")};
  Runner::Options options;
  options.name = "bench of " + op;
  options.device = a.device;
  options.sandbox = a.sandbox;
  options.patience_s = 120;
  if (!a.captured.empty()) options.read = {a.captured};
  const auto turn = wait_for_device(devices_of_ranks(a.device, ranks), DeviceLock::Use::measures);
  RankGroup runner(options, ranks);
  std::vector<PluginFile> files;
  for (const auto& b : plugin_set.baselines) files.push_back({b.path, b.trust});
  for (const auto& c : plugin_set.candidates)
    if (c.error.empty()) files.push_back({c.path, c.trust});
  // All ranks have the slowest rank's times, so the first rank's rows stand for all.
  ToldRows<BenchRow> told;
  if (!runner.failed() && runner.load(files)) {
    const BenchOp asked{.op = op,
                        .size = a.options.size,
                        .seconds = a.options.seconds,
                        .device = a.device,
                        .captured = a.captured,
                        .skew = a.options.skew,
                        .graphs = a.options.graphs,
                        .cases = a.options.cases,
                        .providers = a.options.providers};
    const auto done = runner.task_on_all(asked, [&](int rank, const Json& row) {
      if (rank == 0) told.add(row);
    });
    if (done) device = done->front();
  }
  std::vector<BenchRow> rows = told.rows();
  for (auto& row : rows) row.ranks = ranks;
  if (!runner.protections().empty()) protections = runner.protections();
  if (!runner.failed()) return rows;
  const std::string why = runner.failure().sentence();
  if (runner.failure().kind == "environment") fail_host("bench", "nothing can be measured: " + why);
  rows.push_back(row_without_times(op, why));
  return rows;
}

std::string interval_text(const Ratio& ratio) {
  char text[64];
  std::snprintf(text, sizeof text, "%.3f (%.3f-%.3f)", ratio.value, ratio.low, ratio.high);
  return text;
}

void add_row(Table& table, const BenchRow& row) {
  const double cold = row.cold.median_s;
  const bool timed = cold > 0;
  char count[48] = "";
  std::snprintf(count, sizeof count, row.calls > 1 ? "%d x %d" : "%d", row.cold.samples, row.calls);
  std::string what = excerpt(row.why, 120);
  if (row.cold.dropped) what += std::to_string(row.cold.dropped) + " samples dropped";
  if (row.host_bound) what += (what.empty() ? "" : ", ") + std::string("host bound");
  char routing[80] = "";
  if (!row.routing.empty())
    std::snprintf(routing, sizeof routing, ", %s %.3g", row.routing.c_str(), row.skew);
  const bool fine = what.empty();
  if (row.of_uniform.blocks > 0)
    what += (fine ? "" : ", ") + ("x " + interval_text(row.of_uniform)) + " of uniform";
  const bool raced = !row.against.empty();
  const Speed speed = row.ratio.speed;
  table.row({row.op, row.case_name + routing, row.provider, timed ? human_duration(cold) : "",
             timed ? human_duration(row.cold.low_s) + "-" + human_duration(row.cold.high_s) : "",
             row.warm_s > 0 ? human_duration(row.warm_s) : "", timed ? count : "",
             rate(row.cost.bytes, cold, 1e9), percent(row.of_copy()),
             rate(row.cost.flops, cold, 1e12), percent(timed ? row.roofline : 0),
             raced ? interval_text(row.ratio) : "",
             Cell(raced ? speed_name(speed) : "", !raced                   ? Style::plain
                                                  : speed == Speed::faster ? Style::good
                                                  : speed == Speed::slower ? Style::bad
                                                                           : Style::plain),
             Cell(what, fine ? Style::plain : Style::bad)});
}

std::string trust_line(const std::vector<BenchRow>& rows) {
  if (std::none_of(rows.begin(), rows.end(), [](const BenchRow& row) { return row.ranks > 1; }))
    return "";
  return "Providers of collectives are trusted: values are compared once, and each provider "
         "reports its own times. `fk-host bench CANDIDATE` judges every call of every rank.\n";
}

bool names_plugin(const std::string& word, const PluginSet& plugin_set) {
  const auto has = [&](const std::vector<FoundPlugin>& list) {
    return std::any_of(list.begin(), list.end(), [&](const FoundPlugin& p) {
      return plugin_name(p) == word || p.path.stem() == word;
    });
  };
  return has(plugin_set.candidates) || has(plugin_set.baselines);
}

std::vector<std::string> choose_ops(const BenchArguments& a, const Catalog& catalog,
                                    std::string& origin) {
  std::vector<std::string> ops, cases;
  const std::string one = a.what.empty() ? "" : catalog.at(a.what).op;
  if (!a.captured.empty()) {
    const Captured captured = Captured::open(a.captured, catalog);
    origin = captured.origin();
    for (const auto& op : captured.ops())
      if (one.empty() || op == one) ops.push_back(op);
    if (ops.empty())
      fail(a.captured, "it has no cases of " + one, "it has " + join(captured.ops(), ", "));
    for (const auto& op : ops)
      for (const auto& name : captured.case_names(op)) cases.push_back(name);
  } else {
    for (const auto& op : one.empty() ? catalog.ops() : std::vector<std::string>{one})
      if (!one.empty() || catalog.at(op).level == 1) ops.push_back(op);
    for (const auto& op : ops)
      for (const auto& c : catalog.at(op).cases)
        if (c.size == a.options.size) cases.push_back(c.name);
  }
  need_known(a.options.cases, cases, "--case", a.options.size + " case");
  const auto routed = [&](const auto& op) { return has_routing(catalog.at(op)); };
  if (a.options.skew > 0 && std::none_of(ops.begin(), ops.end(), routed))
    fail("--routing", "calls of " + join(ops, ", ") + " have no expert ids as input");
  return ops;
}

std::vector<int> ranks_for(const BenchArguments& a, const Catalog& catalog, const std::string& op) {
  const Contract& contract = catalog.at(op);
  // Also read here, so that a damaged folder is not blamed on a provider.
  auto cases = a.captured.empty() ? contract.cases : Captured::open(a.captured, catalog).cases(op);
  if (!contract.comm()) return {1};
  const auto& wanted = a.options.cases;
  std::erase_if(cases, [&](const Case& c) {
    return !wanted.empty() && std::find(wanted.begin(), wanted.end(), c.name) == wanted.end();
  });
  return ranks_of(contract, cases, a.options.size, true);
}

BenchArguments complete(BenchArguments a) {
  check_device_name(a.device);
  if (!a.captured.empty()) {
    a.captured = std::filesystem::absolute(a.captured).lexically_normal();
    a.options.size = "captured";
  } else {
    need_size(a.options.size);
  }
  check_seconds(a.options.seconds);
  if (!a.options.graphs && a.device == "cpu")
    fail("--no-graph", "there are no CUDA graphs on the device cpu");
  a.options.skew = skew_of_routing(a.routing);
  return a;
}

BenchRequest request_of(const BenchArguments& a, bool as_json) {
  BenchRequest request;
  Policy& policy = request.question.policy;
  policy.size = a.options.size;
  policy.ops = a.ops;
  policy.cases = a.options.cases;
  policy.families = a.families;
  policy.captured = a.captured;
  policy.routing = a.routing;
  policy.variants = a.variants;
  policy.dtypes = a.dtypes;
  policy.seconds = a.options.seconds;
  policy.patience_s = a.patience_s;
  policy.budget_s = a.budget_s;
  policy.sandbox = a.sandbox;
  policy.thorough = a.thorough;
  request.question.device = a.device;
  request.answer.store = !a.no_store;
  request.answer.fresh = a.fresh;
  request.answer.host_version = FK_VERSION;
  request.secret = a.secret;
  request.receipt = a.receipt;
  request.profile = a.profile;
  request.as_json = as_json, request.json = a.json;
  return request;
}

int judge(const BenchArguments& a, const BenchRequest& request) {
  if (a.options.graphs) return bench_candidate(request);
  fail("--no-graph", "a verdict's `timings` have both, with and without graphs", "bench OP");
}

// The file of a plugin with its file's name. Nothing if another file or an op has that name.
std::optional<std::filesystem::path> plugin_of_name(const std::string& name) {
  if (name.empty()) return std::nullopt;
  for (const auto& dir : paths::registry_dirs()) {
    std::error_code none;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir / "ops", none))
      if (entry.path().filename() == name + ".yaml") return std::nullopt;
  }
  auto file = only_plugin_file(name);
  try {
    if (file && read_notes(*file).name != name) return std::nullopt;
  } catch (const Error&) {
    return std::nullopt;  // the full search reports the reason
  }
  return file;
}

// Reads no contracts and no other plugins, so that a stored answer comes at once.
std::optional<int> bench_at_once(const BenchArguments& a, bool as_json) {
  const bool path = a.what.find('/') != std::string::npos || ends_with(a.what, ".so");
  BenchRequest request = request_of(a, as_json);
  if (!path && !a.build) {
    const auto file = plugin_of_name(a.what);
    if (!file) return std::nullopt;
    request.question.candidate = *file;
    return judge(a, request);
  }
  request.question.candidate = a.what;
  if (a.build || std::filesystem::is_directory(a.what)) {
    if (!build_for_bench(candidate_dir(a.what), request)) return kExitFailed;
  } else if (!std::filesystem::exists(a.what)) {
    return std::nullopt;
  }
  return judge(a, request);
}

[[noreturn]] void no_such_thing(const std::string& word, const Catalog& catalog,
                                const PluginSet& plugin_set) {
  need_built(word);
  std::vector<std::string> known;
  for (const auto* list : {&plugin_set.candidates, &plugin_set.baselines})
    for (const auto& plugin : *list) known.push_back(plugin_name(plugin));
  for (const auto& op : catalog.ops()) known.push_back(op);
  fail("bench", "there is no op and no plugin `" + excerpt(word) + "`", did_you_mean(word, known));
}

int bench(const BenchArguments& asked, bool as_json) {
  const BenchArguments a = complete(asked);
  if (const auto done = bench_at_once(a, as_json)) return *done;
  const Catalog catalog(paths::registry_dirs());
  const PluginSet plugin_set = PluginSet::find(catalog);
  if (!a.what.empty() && !catalog.find(a.what)) {
    const bool file = a.what.find('/') != std::string::npos || ends_with(a.what, ".so");
    if (!file && !names_plugin(a.what, plugin_set)) no_such_thing(a.what, catalog, plugin_set);
    BenchRequest request = request_of(a, as_json);
    request.question.candidate = plugin_set.plugin(a.what).path;
    return judge(a, request);
  }
  for (const bool given :
       {!a.ops.empty(), !a.families.empty(), !a.variants.empty(), !a.dtypes.empty(),
        !a.secret.empty(), a.fresh, a.no_store, !a.receipt.empty(), a.profile,
        a.thorough || a.options.size == kRangeSize})
    if (given)
      fail("bench",
           "--op, --family, --variant, --dtype, --secret, --fresh, --no-store, --receipt, "
           "--profile, --thorough and --size range are for a candidate",
           "bench CANDIDATE");
  std::vector<std::string> known = plugin_set.ranked();
  for (const auto& c : plugin_set.candidates)
    if (c.error.empty()) known.push_back(plugin_name(c));
  need_known(a.options.providers, known, "--provider", "usable plugin");
  std::string origin;
  const auto ops = choose_ops(a, catalog, origin);
  std::vector<BenchRow> all;
  bool good = true;
  const bool colour = colour_wanted(stdout);
  std::string device = a.device;
  std::vector<Protection> protections;
  Table table({{"op"},
               {"case"},
               {"provider"},
               {"cold", Align::right},
               {"quartiles", Align::right},
               {"warm", Align::right},
               {"samples", Align::right},
               {"GB/s", Align::right},
               {"of copy", Align::right},
               {"TFLOP/s", Align::right},
               {"of roofline", Align::right},
               {"x first (99 %)", Align::right},
               {"verdict"},
               {""}});
  for (const auto& op : ops) {
    for (const int ranks : ranks_for(a, catalog, op))
      for (const auto& row : run_op(a, op, plugin_set, ranks, device, protections)) {
        good &=
            row.why.empty() || starts_with(row.why, "refused") || starts_with(row.why, "left out");
        add_row(table, row);
        all.push_back(row);
      }
  }
  if (as_json)
    print_json(document(BenchDocument{device, a.options.size, origin, a.options.seconds,
                                      protections, all}),
               a.json);
  else
    std::printf("%s%s%s%s", origin.empty() ? "" : (origin + "\n").c_str(),
                table.text(colour, 0).c_str(), trust_line(all).c_str(),
                sandbox_line(protections).c_str());
  return good ? kExitOk : kExitFailed;
}

std::function<int()> add_bench(const Options& app) {
  auto a = std::make_shared<BenchArguments>();
  app.add_option("WHAT", a->what,
                 "an op, to race its providers (default: all ops of level 1); or a candidate, to "
                 "judge it: a .so, or its name");
  app.add_option("--device", a->device, "cpu (the default) or cuda:0");
  app.add_option("--provider", a->options.providers, "only these; the others race the first");
  app.add_option("--op", a->ops, "of a candidate, only these");
  app.add_option("--family", a->families, "of inputs for a candidate, only these and ordinary");
  app.add_option("--variant", a->variants,
                 "variants of a candidate's cases to judge too, by `check`'s names, or all");
  app.add_option("--dtype", a->dtypes, "the same for dtypes: f32, bf16, f16, or all");
  app.add_option("--secret", a->secret, "secret of an earlier verdict, to reuse its seeds");
  app.add_flag("--fresh", a->fresh, "judge a candidate again, even if a verdict is stored");
  app.add_flag("--no-store", a->no_store, "do not read earlier verdicts and do not store this one");
  app.add_option("--receipt", a->receipt, "write the signed receipt to a file, too");
  app.add_flag("--profile", a->profile,
               "also run a candidate under Nsight Compute, without the sandbox");
  app.add_flag("--thorough", a->thorough,
               "of a candidate, all cases, and all timed; else those for which there is time");
  app.add_flag("--build", a->build,
               "compile the candidate's folder first (a path to a folder implies it)");
  const char* const patience = "seconds without a sign of life before a candidate is stopped";
  app.add_option("--patience", a->patience_s, patience).positive();
  app.add_option("--budget", a->budget_s, "seconds for a whole verdict; 0: no end");
  app.add_option("--case", a->options.cases, "only these");
  app.add_option("--recorded,--captured", a->captured, "cases of this folder (fk-host record)");
  app.add_option("--routing", a->routing,
                 "load of experts for ops with expert ids: uniform, skewed (as published) or "
                 "skewed:RATIO. Skewed rows are shown beside uniform ones");
  app.add_option("--size", a->options.size, "full (the default), ci, smoke or range cases");
  app.add_flag("!--no-graph", a->options.graphs,
               "providers are called without CUDA graphs; a candidate's row has both");
  app.add_flag("!--no-sandbox", a->sandbox,
               "run candidates without a sandbox, with all rights of this user");
  app.add_option("--seconds", a->options.seconds, "approximate time per case and provider");
  const auto json =
      app.add_option("--json", a->json, "write JSON, to a file or to the standard output")
          .value_optional();
  return [a, json] { return bench(*a, json.given()); };
}

FK_VERB(bench, "judge a candidate, or compare all providers of an op: correctness and time",
        add_bench);

}  // namespace
}  // namespace fk
