// SPDX-License-Identifier: Apache-2.0
// fk-host check PLUGIN: the lint, then each op against its contract and the reference provider, in
// a worker process. A crash or hang is a row, and the rest continues in a new process.
#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/cases/captured.hpp"
#include "core/cases/numerics/families.hpp"
#include "core/check/check.hpp"
#include "core/check/plugin_set.hpp"
#include "core/check/sound.hpp"
#include "core/cli/candidate.hpp"
#include "core/cli/check_rows.hpp"
#include "core/cli/conformance.hpp"
#include "core/cli/output.hpp"
#include "core/cli/recheck.hpp"
#include "core/cli/verb.hpp"
#include "core/cli/wait_for_device.hpp"
#include "core/device/rank_device.hpp"
#include "core/judge/verdict/secret.hpp"
#include "core/report/run_text.hpp"
#include "core/report/table.hpp"
#include "core/worker/rank_group.hpp"
#include "core/worker/symbols.hpp"
#include "core/worker/task.hpp"

namespace fk {
namespace {

struct CheckArguments {
  std::string plugin, captured, device = "cpu", report, verify;
  JsonOutput json;
  std::vector<std::string> ops;       // empty: all
  std::vector<std::string> families;  // as in CheckOptions
  CheckOptions options;
  double patience_s = 20;
  int ranks = 0;  // ranks of the cases; 0: any
  bool verbose = false, sandbox = true;
};

constexpr int64_t kPrivateMost = int64_t{8} << 30;  // memory of a process on the CPU

bool is_wanted(const CheckArguments& a, const std::string& op) {
  return a.ops.empty() || std::find(a.ops.begin(), a.ops.end(), op) != a.ops.end();
}

class Checker {
 public:
  // `captured`: check only these cases; null: the contracts'.
  Checker(const CheckArguments& a, const FoundPlugin& found, const PluginSet& plugin_set,
          const Captured* captured)
      : a_(a), found_(found), plugin_set_(plugin_set), captured_(captured) {}

  std::vector<CheckRow> run(const Catalog& catalog) {
    for (const auto& finding : lint(found_.path, found_.trust)) {
      if (finding.fatal) add("", "lint", finding.rule + ": " + finding.text);
    }
    if (!rows_.empty()) return rows_;  // a file that breaks the lint is not loaded
    for (const auto& wanted : a_.ops) need_op(wanted);
    need_cases(catalog);
    for (const auto& op : found_.note.ops) {
      if (!is_wanted(a_, op.op)) continue;
      if (!has_wanted_case(op.op, catalog)) continue;
      const std::string why = note_mismatch(op, catalog);
      if (!why.empty())
        add(op.op, "contract", why);
      else
        check(op.op, catalog);
    }
    return rows_;
  }

  const std::vector<Protection>& protections() const { return protections_; }

  // The printed words of all its processes, which end here.
  std::string end() {
    end_runners();
    return std::move(log_);
  }

 private:
  void need_op(const std::string& wanted) const {
    std::vector<std::string> ops;
    for (const auto& op : found_.note.ops) ops.push_back(op.op);
    if (std::find(ops.begin(), ops.end(), wanted) == ops.end())
      fail("--op", plugin_name(found_) + " has no op `" + wanted + "`", did_you_mean(wanted, ops));
  }

  // Cases of the requested size; empty for an unknown op.
  std::vector<std::string> case_names(const std::string& op, const Catalog& catalog) const {
    if (captured_) return captured_->case_names(op);
    std::vector<std::string> out;
    const Contract* const contract = catalog.find(op);
    if (!contract) return out;
    for (const Case& c : contract->cases)
      if (size_includes(a_.options.size, c.size)) out.push_back(c.name);
    return out;
  }

  void need_cases(const Catalog& catalog) const {
    std::vector<std::string> known;
    for (const auto& op : found_.note.ops) {
      if (!is_wanted(a_, op.op)) continue;
      for (auto& name : case_names(op.op, catalog))
        if (!contains(known, name)) known.push_back(std::move(name));
    }
    need_known(a_.options.only_cases, known, "--case", a_.options.size + " case");
  }

  bool has_wanted_case(const std::string& op, const Catalog& catalog) const {
    const auto& wanted = a_.options.only_cases;
    const auto names = case_names(op, catalog);
    if (wanted.empty()) return !captured_ || !names.empty();
    return std::ranges::any_of(names, [&](const auto& name) { return contains(wanted, name); });
  }

  void add(const std::string& op, const std::string& rule, const std::string& text) {
    CheckRow row;
    row.op = op;
    row.provider = plugin_name(found_);
    row.status = CheckStatus::violation;
    row.rule = rule;
    row.text = text;
    rows_.push_back(std::move(row));
  }

  void check(const std::string& op, const Catalog& catalog) {
    const auto& contract = catalog.at(op);
    need_sound_cases(contract, true);
    // Also read here, so that a damaged folder is not blamed on the plugin.
    const auto all =
        ranks_of(contract, captured_ ? captured_->cases(op) : contract.cases, a_.options.size);
    if (a_.ranks && !a_.ops.empty() && std::find(all.begin(), all.end(), a_.ranks) == all.end()) {
      std::vector<std::string> known;
      for (const int ranks : all) known.push_back(std::to_string(ranks));
      fail("--ranks", op + " has no " + a_.options.size + " case of " + std::to_string(a_.ranks),
           join(known, " or "));
    }
    for (const int ranks : all)
      if (!a_.ranks || ranks == a_.ranks) check_with(op, ranks);
  }

  // True when a process holds much memory, which must not count against the next op.
  bool has_grown(const RankGroup& runner) const {
    return a_.device == "cpu" && !runner.failed() && runner.held_bytes() > kPrivateMost / 8;
  }

  void end_runners() {
    if (!runner_) return;
    const std::string own = runner_->failed() ? runner_->failure().log : runner_->log();
    if (!own.empty()) log_ += (log_.empty() ? "" : "\n") + own;
    runner_.reset();
  }

  // Processes for this number of ranks. The last op's are reused if they found no fault that could
  // affect the next op. Ranks meet only once.
  RankGroup& runners(int ranks) {
    if (runner_ && ranks == 1 && runner_->size() == 1 && !spoilt_) return *runner_;
    end_runners();
    turn_.reset();
    // Some rules measure the device's free memory, others the end of its work.
    turn_ = wait_for_device(devices_of_ranks(a_.device, ranks), DeviceLock::Use::measures);
    Runner::Options options;
    options.name = "check of " + plugin_name(found_);
    options.device = a_.device;
    options.sandbox = a_.sandbox;
    if (!a_.captured.empty()) options.read = {a_.captured};
    // A case of real size on a GPU takes a few minutes at most, mostly for the oracle.
    const bool large = a_.options.size == "full" && a_.device != "cpu";
    options.patience_s = large ? std::max(a_.patience_s, 180.0) : a_.patience_s;
    // On a GPU, a driver's mappings would count.
    if (a_.device == "cpu") options.private_bytes_max = kPrivateMost;
    runner_.emplace(options, ranks);
    std::vector<PluginFile> files;
    for (const auto& b : plugin_set_.baselines)
      if (b.path != found_.path) files.push_back({b.path, b.trust});
    files.push_back({found_.path, found_.trust});
    loaded_ = runner_->failed() ? std::nullopt : runner_->load(files);
    if (loaded_) need_reference(files);
    spoilt_ = false;
    if (!runner_->protections().empty()) protections_ = runner_->protections();
    return *runner_;
  }

  // Error without a reference: nothing would be judged, which is no PASS. A reference for another
  // device may be missing.
  void need_reference(const std::vector<PluginFile>& files) const {
    std::string why;
    for (size_t i = 0; i + 1 < files.size(); ++i) {
      if (files[i].path.stem() != "reference") continue;
      why = loaded_->errors[i];
      if (why.empty()) return;
    }
    if (!why.empty()) throw std::runtime_error("no answers can be judged: " + why);
  }

  void check_with(const std::string& op, int ranks) {
    RankGroup& runner = runners(ranks);
    if (loaded_ && !loaded_->errors.back().empty()) return add(op, "load", loaded_->errors.back());
    std::vector<ToldRows<CheckRow>> rows(static_cast<size_t>(ranks));
    if (loaded_) {
      runner.task_on_all(
          CheckOp{.plugin = found_.note.name,
                  .op = op,
                  .size = a_.options.size,
                  .cases = a_.options.only_cases,
                  .device = a_.device,
                  .captured = a_.captured,
                  .quick = a_.options.quick,
                  .families = a_.families,
                  .seed = a_.options.seed},
          [&](int rank, const Json& row) { rows[static_cast<size_t>(rank)].add(row); });
    }
    if (runner.failed() && runner.failure().kind == "environment")
      throw std::runtime_error("nothing can be judged: " + runner.failure().sentence());
    const bool blamed = merge(rows);
    spoilt_ = blamed || runner.failed() || has_grown(runner);
    if (runner.failed()) {
      const RunnerFailure& f = runner.failure();
      static const std::map<std::string, std::string> rules = {
          {"crashed", "crash"}, {"exited", "exit"},  {"hang", "time"},
          {"memory", "memory"}, {"lost", "forward"}, {"forbidden", "sandbox"}};
      const auto rule = rules.find(f.kind);
      add(op, rule == rules.end() ? f.kind : rule->second, with_symbols(f.sentence(), found_.path));
    }
  }

  // One row per case and variant, with the worst result of all ranks. A row that only echoes
  // another rank's failure counts least. A case that is untestable on one rank may be testable on
  // another. True when an answer was wrong or a rule was broken.
  bool merge(const std::vector<ToldRows<CheckRow>>& ranks) {
    const auto badness = [](const CheckRow& row) {
      static const std::vector<CheckStatus> order = {
          CheckStatus::untestable,  CheckStatus::ok,       CheckStatus::left_out,
          CheckStatus::unsupported, CheckStatus::unjudged, CheckStatus::wrong,
          CheckStatus::violation};
      return std::pair(!row.echo,
                       std::find(order.begin(), order.end(), row.status) - order.begin());
    };
    bool broken = false;
    for (size_t i = 0; i < ranks[0].rows().size(); ++i) {
      CheckRow row = ranks[0].rows()[i];
      size_t worst = 0;
      for (size_t r = 1; r < ranks.size(); ++r) {
        const auto& told = ranks[r].rows();
        if (i >= told.size() || badness(told[i]) <= badness(row)) continue;
        row = told[i];
        worst = r;
      }
      row.echo = false;
      row.ranks = static_cast<int>(ranks.size());
      if (row.ranks > 1 && row.status != CheckStatus::ok)
        row.text = "rank " + std::to_string(worst) + ": " + row.text;
      broken |= row.status == CheckStatus::violation || row.status == CheckStatus::wrong;
      rows_.push_back(std::move(row));
    }
    return broken;
  }

  const CheckArguments& a_;
  const FoundPlugin& found_;
  const PluginSet& plugin_set_;
  const Captured* captured_;
  std::unique_ptr<DeviceLock> turn_;
  std::optional<RankGroup> runner_;
  std::optional<Loaded> loaded_;
  bool spoilt_ = false;
  std::vector<CheckRow> rows_;
  std::vector<Protection> protections_;
  std::string log_;  // of processes that ended
};

void need_common(const FoundPlugin& found, const std::vector<std::string>& captured,
                 const CheckArguments& a) {
  for (const auto& op : found.note.ops)
    if (is_wanted(a, op.op) && std::find(captured.begin(), captured.end(), op.op) != captured.end())
      return;
  fail(a.captured, "it has no cases of " + (a.ops.empty() ? plugin_name(found) : join(a.ops, ", ")),
       "it has " + join(captured, ", "));
}

// Judges smoke cases again; larger ones take minutes. Not for a baseline, and not without the
// sandbox: a plugin that can write to this process could change the result anyway.
std::optional<Recheck> recheck_of(const CheckArguments& a, const FoundPlugin& found,
                                  const std::vector<CheckRow>& rows) {
  if (found.trust != Trust::candidate || !a.sandbox) return std::nullopt;
  Question question;
  question.candidate = found.path;
  question.device = a.device;
  Policy& policy = question.policy;
  policy.size = a.captured.empty() ? "smoke" : "captured";
  policy.captured = a.captured;
  policy.ops = a.ops;
  if (a.options.size == policy.size) policy.cases = a.options.only_cases;
  policy.patience_s = a.patience_s;
  // A plugin for larger cases may refuse the judged ones, some of which have the same names.
  const bool same = !a.captured.empty() || a.options.size == policy.size;
  return recheck(question, same ? rows : std::vector<CheckRow>{});
}

// Ops without a judged case, although the plugin takes cases of them.
std::vector<std::string> unjudged_ops(const std::vector<CheckRow>& rows) {
  std::vector<std::string> judged, out;
  for (const auto& row : rows)
    if (row.status == CheckStatus::ok || row.status == CheckStatus::untestable)
      judged.push_back(row.op);
  for (const auto& row : rows)
    if (row.status == CheckStatus::unjudged && !contains(judged, row.op) && !contains(out, row.op))
      out.push_back(row.op);
  return out;
}

// The end of a check, from its rows.
struct CheckEnd {
  bool good = true;                   // no row fails
  bool told = false;                  // good, and something was checked
  bool judged = false;                // a row has right values
  std::vector<std::string> unjudged;  // ops without a reference
  std::string verdict;
};

CheckEnd end_of(const std::vector<CheckRow>& rows) {
  CheckEnd end;
  bool any = false;
  std::string left_out;  // the first reason
  for (const auto& row : rows) {
    end.good &= row.status != CheckStatus::wrong && row.status != CheckStatus::violation;
    any |= row.status == CheckStatus::ok || row.status == CheckStatus::unjudged;
    end.judged |= row.status == CheckStatus::ok;
    if (row.status == CheckStatus::left_out && left_out.empty()) left_out = row.text;
  }
  end.unjudged = unjudged_ops(rows);
  const bool none_asked = !any && !left_out.empty();
  end.verdict =
      !end.good    ? "FAIL"
      : none_asked ? "UNJUDGED: " + excerpt(left_out, 300)
      : !any       ? "FAIL: the plugin refused every case, so nothing was checked"
      : end.unjudged.empty()
          ? "PASS"
          : "UNJUDGED: no rule was broken, but there is no reference for the values of " +
                join(end.unjudged, ", ") +
                " (a plugin named reference.NAME would be one: docs/package_a_baseline.md)";
  end.good &= any || none_asked;
  end.told = end.good && !none_asked && end.unjudged.empty();
  return end;
}

CheckDocument document_of(const CheckArguments& a, const FoundPlugin& found,
                          const std::vector<CheckRow>& rows, const CheckEnd& end) {
  CheckDocument out;
  out.plugin = plugin_name(found);
  out.file = found.path.string();
  out.seed = a.options.seed;
  out.size = a.options.size;
  out.cases = a.options.only_cases;
  out.quick = a.options.quick;
  out.families = a.families;
  out.device = a.device;
  out.passed = end.told && end.good;
  out.unjudged = end.unjudged;
  out.rows = rows;
  return out;
}

int run(CheckArguments a) {
  a.json.open();
  for (const auto& family : a.families) family_of(family, "--family");
  if (!a.captured.empty()) {
    a.captured = std::filesystem::absolute(a.captured).lexically_normal();
    a.options.size = "captured";
  } else {
    need_size(a.options.size);
  }
  check_device_name(a.device);
  const Catalog catalog(paths::registry_dirs());
  const PluginSet plugin_set = PluginSet::find(catalog);
  const FoundPlugin found = plugin_set.plugin(a.plugin);
  if (!found.error.empty() && found.note.ops.empty()) fail("", found.error);  // it names the file
  if (found.note.ops.empty()) fail(found.path.string(), "the plugin has no ops");
  if (!a.verify.empty()) {
    std::fputs(verified_conformance(a.verify, found).c_str(), stdout);
    return kExitOk;
  }
  std::optional<Captured> captured;
  std::string origin;
  if (!a.captured.empty()) {
    captured = Captured::open(a.captured, catalog);
    origin = captured->origin();
    need_common(found, captured->ops(), a);
  }
  std::optional<Checker> checker(std::in_place, a, found, plugin_set,
                                 captured ? &*captured : nullptr);
  const std::vector<CheckRow> rows = checker->run(catalog);
  const std::vector<Protection> protections = checker->protections();
  const std::string log = checker->end();
  checker.reset();  // ends its lock on the device
  CheckEnd end = end_of(rows);
  const auto look = end.good && end.judged ? recheck_of(a, found, rows) : std::nullopt;
  if (look && look->disagrees) {
    end.good = false;
    end.verdict =
        std::string("FAIL: its own process says that all is well; judged from outside it is `") +
        name_of(look->status) + "`: " + excerpt(look->why, 300);
  } else if (look && !is_right(look->status)) {
    end.verdict += std::string(", as its own process says; from outside it is `") +
                   name_of(look->status) + "`: " + excerpt(look->why, 300);
  }
  const std::string stale = stale_build(found.path);
  if (!stale.empty()) std::fprintf(stderr, "fk-host: %s\n", excerpt(stale, 1000).c_str());
  if (a.json.given() || !a.report.empty()) {
    CheckDocument out = document_of(a, found, rows, end);
    out.stale = stale, out.captured = origin, out.protections = protections, out.log = log;
    if (look) out.judged = {look->status, look->why};
    if (a.json.given()) a.json.write(document(out));
    if (!a.report.empty()) write_conformance(a.report, found, out, end.verdict);
  }
  if (a.json.with_report()) {
    const std::string head = excerpt(plugin_name(found)) + " " + excerpt(found.note.version) +
                             " (" + excerpt(found.path.string(), 300) + "), cases " +
                             (origin.empty() ? a.options.size : excerpt(origin, 200)) +
                             (a.options.quick ? " as they are written" : "") + ", on " + a.device +
                             ", seed " + std::to_string(a.options.seed);
    print_report(head + "\n");
    print_rows(rows, a.verbose);
    if (!log.empty()) print_report("\nPrinted by the plugin\n" + printed_lines(log));
    const Style style = end.told && end.good ? Style::good : Style::bad;
    const std::string last =
        sandbox_line(protections) + styled(end.verdict, style, colour_wanted(stdout));
    print_report(last + "\n");
  }
  return !end.good ? kExitFailed : end.told ? kExitOk : kExitEnvironment;
}

std::function<int()> add_check(const Options& app) {
  auto a = std::make_shared<CheckArguments>();
  app.add_option("PLUGIN", a->plugin, "a .so, or the name of a plugin").required();
  app.add_option("--op", a->ops, "only this op (may be repeated)").one_at_a_time();
  app.add_option(
      "--size", a->options.size,
      "smoke (the default), ci or full, each with the smaller ones; or range: sizes beyond "
      "16 bits");
  app.add_option("--case", a->options.only_cases, "only this one (may be repeated)")
      .one_at_a_time();
  app.add_option("--recorded,--captured", a->captured,
                 "cases of this folder, in place of the contract's (fk-host record)");
  app.add_option("--ranks", a->ranks, "only cases with this number of ranks").positive();
  app.add_flag("--quick", a->options.quick,
               "cases as written, without variants of layout and inputs; bf16 if the plugin "
               "refuses float32");
  app.add_option("--family", a->families,
                 "of inputs, only these and ordinary; else two of a smoke case, all of larger ones")
      .one_at_a_time();
  app.add_option("--device", a->device, "cpu (the default) or cuda:0");
  const auto seed =
      app.add_option("--seed", a->options.seed, "of the inputs; random otherwise, and printed");
  app.add_option("--patience", a->patience_s,
                 "stop a worker after this many seconds without a sign of life")
      .positive();
  app.add_flag("!--no-sandbox", a->sandbox, "run without a sandbox, with all rights of this user");
  app.add_flag("--verbose", a->verbose, "a line for every case and variant");
  app.add_option("--report", a->report,
                 "write a signed report to this file, which ships with the plugin");
  app.add_option("--verify", a->verify,
                 "compare such a report with the plugin's file and its signature; check nothing");
  a->json.declare(app);
  a->json.declare_views(app);
  return [a, seed] {
    // Short, because a user may have to type it.
    if (!seed.given()) a->options.seed = Secret::draw().seed("check") >> 32;
    return run(*a);
  };
}

FK_DOCUMENT(check, CheckDocument);
FK_VERB(check, "lint, conformance and correctness of a plugin's ops", add_check);

}  // namespace
}  // namespace fk
