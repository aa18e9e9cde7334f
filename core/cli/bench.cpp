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

Json row_json(const BenchRow& r) {
  Json row = {{"op", r.op},
              {"case", r.case_name},
              {"axes", r.axes},
              {"provider", r.provider},
              {"why", r.why},
              {"note", r.note},
              {"cold_s", r.cold.median_s},
              {"cold_low_s", r.cold.low_s},
              {"cold_high_s", r.cold.high_s},
              {"samples", r.cold.samples},
              {"dropped", r.cold.dropped},
              {"warm_s", r.warm_s},
              {"plan_s", r.plan_s},
              {"calls_per_sample", r.calls},
              {"captured", r.captured},
              {"host_bound", r.host_bound},
              {"settled", r.settled},
              {"bytes", r.cost.bytes},
              {"flops", r.cost.flops},
              {"wire", r.cost.wire},
              {"copy_s", r.copy_s},
              {"of_copy", r.of_copy()},
              {"roofline", r.roofline}};
  if (!r.routing.empty()) row["routing"] = r.routing;
  if (r.skew > 0) row["skew"] = r.skew;
  if (r.of_uniform.blocks > 0) {
    row["of_uniform"] = r.of_uniform.value;
    row["of_uniform_low"] = r.of_uniform.low;
    row["of_uniform_high"] = r.of_uniform.high;
  }
  if (!r.against.empty()) {
    row["against"] = r.against;
    row["speedup"] = r.ratio.value;
    row["speedup_low"] = r.ratio.low;
    row["speedup_high"] = r.ratio.high;
    row["blocks"] = r.ratio.blocks;
    row["verdict"] = speed_name(r.ratio.speed);
  }
  return row;
}

Json bench_task(const Json& arguments, const TaskServices& services) {
  BenchOptions options;
  const auto device =
      open_device(device_of_rank(arguments.at("device").get<std::string>(), services.local_rank));
  const auto comm = services.communicator(*device);
  options.device = device.get();
  if (!device->host_memory())
    options.threads = static_cast<int>(std::max(2u, std::thread::hardware_concurrency()));
  options.size = arguments.at("size").get<std::string>();
  options.seconds = arguments.at("seconds").get<double>();
  options.graphs = arguments.at("graphs").get<bool>();
  options.providers = arguments.at("providers").get<std::vector<std::string>>();
  options.cases = arguments.at("cases").get<std::vector<std::string>>();
  options.comm = comm.get();
  options.skew = arguments.value("skew", 0.0);
  std::vector<Case> cases;
  const auto op = arguments.at("op").get<std::string>();
  if (const auto folder = arguments.value("captured", std::string()); !folder.empty()) {
    const Captured captured = Captured::open(folder, services.catalog);
    cases = captured.cases(op);
    options.captured = &cases;
    options.captured_random = captured.random_weights();
  }
  options.on_row = [&](const BenchRow& row) { services.progress(row_json(row)); };
  options.on_step = [&](const std::string& what) { services.stage(what); };
  bench_op(services.plugins, op, options);
  return {{"device", device->name()}};
}
FK_TASK(bench_op, bench_task);

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

// A row with all possible keys.
Json any_row() {
  BenchRow row;
  row.routing = row.against = "any";
  row.skew = row.of_uniform.blocks = 1;
  return row_json(row);
}

// Reports rows as they come, so that a crash loses none. `device` gets the worker's name for it.
std::vector<Json> run_op(const BenchArguments& a, const std::string& op,
                         const PluginSet& plugin_set, int ranks, std::string& device,
                         std::vector<Protection>& protections) {
  // Ranks that share a device would wait for each other's lock.
  const std::string kind = a.device.substr(0, a.device.find(':'));
  const auto count = std::ranges::count_if(
      device_names(), [&](const auto& d) { return starts_with(d, kind + ":"); });
  if (ranks > 1 && kind != "cpu" && ranks > count)
    return {{{"op", op},
             {"case", ""},
             {"provider", ""},
             {"ranks", ranks},
             {"why", "left out: " + std::to_string(ranks) + " ranks on " + std::to_string(count) +
                         " devices"}}};
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
  ToldRows told(any_row());
  if (!runner.failed() && runner.load(files)) {
    const Json arguments = {{"op", op},
                            {"size", a.options.size},
                            {"seconds", a.options.seconds},
                            {"device", a.device},
                            {"captured", a.captured},
                            {"skew", a.options.skew},
                            {"graphs", a.options.graphs},
                            {"cases", a.options.cases},
                            {"providers", a.options.providers}};
    const auto done = runner.task_on_all("bench_op", arguments, [&](int rank, const Json& row) {
      if (rank == 0) told.add(row);
    });
    const auto name = done ? done->front().find("device") : Json::const_iterator();
    if (done && name != done->front().end() && name->is_string()) device = name->get<std::string>();
  }
  std::vector<Json> rows = told.rows();
  for (auto& row : rows)
    if (ranks > 1) row["ranks"] = ranks, row["trusted"] = true;
  if (!runner.protections().empty()) protections = runner.protections();
  if (!runner.failed()) return rows;
  const std::string why = runner.failure().sentence();
  if (runner.failure().kind == "environment") fail_host("bench", "nothing can be measured: " + why);
  rows.push_back({{"op", op}, {"case", ""}, {"provider", ""}, {"why", why}});
  return rows;
}

std::string times(const Json& row, const std::string& key) {
  char text[64];
  std::snprintf(text, sizeof text, "x %.3f (%.3f-%.3f)", row.value(key, 0.0),
                row.value(key + "_low", 0.0), row.value(key + "_high", 0.0));
  return text;
}

void add_row(Table& table, const Json& row) {
  const double cold = row.value("cold_s", 0.0);
  char speedup[48] = "", count[48] = "";
  if (row.contains("speedup"))
    std::snprintf(speedup, sizeof speedup, "%.3f (%.3f-%.3f)", row.value("speedup", 0.0),
                  row.value("speedup_low", 0.0), row.value("speedup_high", 0.0));
  const int calls = row.value("calls_per_sample", 1), dropped = row.value("dropped", 0);
  std::snprintf(count, sizeof count, calls > 1 ? "%d x %d" : "%d", row.value("samples", 0), calls);
  std::string what = excerpt(row.value("why", std::string()), 120);
  if (dropped) what += std::to_string(dropped) + " samples dropped";
  if (row.value("host_bound", false))
    what += (what.empty() ? "" : ", ") + std::string("host bound");
  const std::string verdict = row.value("verdict", std::string());
  char routing[80] = "";
  if (row.contains("routing"))
    std::snprintf(routing, sizeof routing, ", %s %.3g", row.value("routing", "").c_str(),
                  row.value("skew", 0.0));
  const bool fine = what.empty();
  if (row.contains("of_uniform"))
    what += (fine ? "" : ", ") + times(row, "of_uniform") + " of uniform";
  table.row({row.value("op", std::string()), row.value("case", std::string()) + routing,
             row.value("provider", std::string()), cold > 0 ? human_duration(cold) : "",
             cold > 0 ? human_duration(row.value("cold_low_s", 0.0)) + "-" +
                            human_duration(row.value("cold_high_s", 0.0))
                      : "",
             row.value("warm_s", 0.0) > 0 ? human_duration(row.value("warm_s", 0.0)) : "",
             cold > 0 ? count : "", rate(row.value("bytes", 0.0), cold, 1e9),
             percent(cold > 0 ? row.value("of_copy", 0.0) : 0),
             rate(row.value("flops", 0.0), cold, 1e12),
             percent(cold > 0 ? row.value("roofline", 0.0) : 0), speedup,
             Cell(verdict, verdict == "faster"   ? Style::good
                           : verdict == "slower" ? Style::bad
                                                 : Style::plain),
             Cell(what, fine ? Style::plain : Style::bad)});
}

std::string trust_line(const Json& rows) {
  if (std::none_of(rows.begin(), rows.end(), [](const Json& row) { return row.contains("ranks"); }))
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
  Json all = Json::array();
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
        const std::string why = row.value("why", std::string());
        good &= why.empty() || starts_with(why, "refused") || starts_with(why, "left out");
        add_row(table, row);
        all.push_back(row);
      }
  }
  if (as_json)
    print_json({{"schema", "fk-host.bench/2"},
                {"device", device},
                {"size", a.options.size},
                {"captured", origin},
                {"seconds", a.options.seconds},
                {"protections", to_json(protections)},
                {"rows", all}},
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
