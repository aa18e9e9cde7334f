// SPDX-License-Identifier: Apache-2.0
#include "core/cli/bench/bench_op.hpp"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/cases/captured.hpp"
#include "core/cases/routing.hpp"
#include "core/check/sound.hpp"
#include "core/cli/verb.hpp"
#include "core/cli/wait_for_device.hpp"
#include "core/device/rank_device.hpp"
#include "core/judge/plan/case_plan.hpp"
#include "core/report/check_documents.hpp"
#include "core/report/table.hpp"
#include "core/report/trace_events.hpp"
#include "core/worker/rank_group.hpp"
#include "core/worker/task.hpp"

namespace fk {
namespace {

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
                             std::vector<Protection>& protections, Unusable& unusable) {
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
  const auto loaded = runner.failed() ? std::nullopt : runner.load(files);
  if (loaded) {
    unusable.clear();  // the same for each op
    for (size_t i = 0; i < files.size(); ++i)
      if (!loaded->errors.at(i).empty())
        unusable.push_back(fk::unusable(files[i].path, loaded->errors[i]));
    need_loaded(a.options.providers, unusable);
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

std::string unusable_lines(const Unusable& unusable) {
  std::string out;
  for (const auto& [path, why] : unusable)
    out += "not usable: " + excerpt(path, 300) + ": " + excerpt(why, 300) + "\n";
  return out;
}

std::string trust_line(const std::vector<BenchRow>& rows) {
  if (std::none_of(rows.begin(), rows.end(), [](const BenchRow& row) { return row.ranks > 1; }))
    return "";
  return "Providers of collectives are trusted: values are compared once, and each provider "
         "reports its own times. `fk-host bench CANDIDATE` judges every call of every rank.\n";
}

// `named`: empty for all ops of level 1.
std::vector<std::string> choose_ops(const BenchArguments& a, const std::vector<std::string>& named,
                                    const Catalog& catalog, std::string& origin) {
  std::vector<std::string> ops, cases;
  if (!a.captured.empty()) {
    const Captured captured = Captured::open(a.captured, catalog);
    origin = captured.origin();
    for (const auto& op : captured.ops())
      if (named.empty() || contains(named, op)) ops.push_back(op);
    if (ops.empty())
      fail(a.captured, "it has no cases of " + join(named, ", "),
           "it has " + join(captured.ops(), ", "));
    for (const auto& op : ops)
      for (const auto& name : captured.case_names(op)) cases.push_back(name);
  } else {
    for (const auto& op : named.empty() ? catalog.ops() : named)
      if (!named.empty() || catalog.at(op).level == 1) ops.push_back(op);
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

}  // namespace

int bench_ops(const BenchArguments& a, const std::vector<std::string>& named,
              const Catalog& catalog, const PluginSet& plugin_set) {
  std::vector<std::string> known = plugin_set.ranked();
  for (const auto& c : plugin_set.candidates)
    if (c.error.empty()) known.push_back(plugin_name(c));
  need_known(a.options.providers, known, "--provider", "usable plugin");
  std::string origin;
  const auto ops = choose_ops(a, named, catalog, origin);
  for (const auto& op : ops) need_sound_cases(catalog.at(op), true);
  std::vector<BenchRow> all;
  std::vector<std::string> judged;  // ops with a provider whose values were compared
  bool good = true;
  const bool colour = colour_wanted(stdout);
  std::string device = a.device;
  std::vector<Protection> protections;
  Unusable unusable;
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
      for (const auto& row : run_op(a, op, plugin_set, ranks, device, protections, unusable)) {
        good &=
            row.why.empty() || starts_with(row.why, "refused") || starts_with(row.why, "left out");
        if (row.why.empty() && row.note.empty()) judged.push_back(op);
        add_row(table, row);
        all.push_back(row);
      }
  }
  for (const auto& broken : plugin_set.broken)
    unusable.push_back(fk::unusable(broken.path, broken.error));
  if (a.json.given() || !a.trace.empty()) {
    const Json out = document(BenchDocument{device, a.options.size, origin, a.options.seconds,
                                            protections, unusable, all});
    TraceEvents events;
    add_bench_times(out, events);
    if (!a.trace.empty()) write_trace(events, a.trace);
    if (a.json.given()) a.json.write(out);
  }
  if (a.json.with_report())
    std::printf("%s",
                fitted((origin.empty() ? "" : origin + "\n") + table.text(colour, 0) +
                           unusable_lines(unusable) + trust_line(all) + sandbox_line(protections),
                       report_width())
                    .c_str());
  const auto is_unjudged = [&](const BenchRow& row) {
    return row.why.empty() && !contains(judged, row.op);
  };
  if (!good) return kExitFailed;
  return std::ranges::any_of(all, is_unjudged) ? kExitEnvironment : kExitOk;
}

}  // namespace fk
