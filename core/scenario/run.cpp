// SPDX-License-Identifier: Apache-2.0
#include "core/scenario/run.hpp"

#include <algorithm>
#include <memory>
#include <random>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/spent.hpp"
#include "core/base/text.hpp"
#include "core/comm/device_comm.hpp"
#include "core/device/device.hpp"
#include "core/device/identity.hpp"
#include "core/device/rank_device.hpp"
#include "core/exec/ranking.hpp"
#include "core/judge/gpu_telemetry.hpp"
#include "core/scenario/memory_budget.hpp"
#include "core/scenario/model_oracle.hpp"
#include "core/scenario/process_pairs.hpp"
#include "core/scenario/run_memory_budget.hpp"
#include "core/scenario/verify.hpp"

namespace fk {
namespace {

constexpr double kPatienceBaseline = 300, kPatienceLeast = 10;  // seconds
constexpr double kPaceFactor = 20;  // a candidate slower than the baseline by this factor hangs
constexpr int64_t kPrivateSlack = int64_t{2} << 30;

class ScenarioRun {
 public:
  ScenarioRun(const Scenario& scenario, const RunOptions& options, const Catalog& catalog,
              const PluginSet& plugin_set)
      : scenario_(scenario),
        options_(options),
        catalog_(catalog),
        plugin_set_(plugin_set),
        model_(scenario.make()),
        workloads_(wanted_workloads(scenario, options.workloads)),
        session_limits_(scenario.limits) {
    report_.describe(scenario);
    report_.requests_seed = options.requests_seed;
    for (const auto& broken : plugin_set.broken)
      report_.broken_plugins.push_back(unusable(broken.path, broken.error));
    ranking_ = ranking_of(open_device(options.device)->name());
    routed_ = is_routed(scenario.config, scenario.limits.dtype);
    report_.processes = timed_processes(scenario, options);
  }

  RunReport run() {
    const double start = now_seconds();
    if (prepare() && judge_baseline()) {
      for (const auto& group : candidate_groups(plugin_set_, options_, report_.broken_plugins)) {
        report_.candidates.push_back(judge_candidate(group));
        check_weights(report_.candidates.back());
        // Before the next candidate can touch the weights.
        if (oracle_->is_open()) audit_all();
        if (!report_.error.empty()) break;
      }
      if (report_.candidates.empty() && report_.error.empty()) time_baseline();
      if (report_.baseline.log.empty()) report_.baseline.log = baseline_->log();
      audit_all();
    }
    enter("");
    report_.spent = spent_.all();
    report_.seconds = now_seconds() - start;
    return std::move(report_);
  }

 private:
  // True when both sides use one copy of the caches; each uses it while the other is stopped.
  bool shares_states() const {
    const auto judges = [&](const auto& c) { return c.error.empty() && options_.wants(c); };
    return std::ranges::any_of(plugin_set_.candidates, judges);
  }

  void enter(const std::string& what) {
    spent_.enter(what);
    if (!what.empty()) say(what);
  }

  void say(const std::string& text) {
    if (options_.progress) options_.progress(scenario_.name + ": " + text);
  }

  // Keeps the first error.
  bool give_up(const std::string& who, const std::string& why) {
    if (report_.error.empty()) report_.error = who + ": " + why;
    return false;
  }

  SessionSpec spec(const std::vector<std::string>& baselines) const {
    SessionSpec spec{scenario_.arch, scenario_.config, session_limits_, {}, options_.device};
    spec.graphs = options_.graphs;
    if (options_.device != "cpu") spec.decode_sizes = kDecodeSizes;
    spec.policy.pins = scenario_.providers;
    spec.policy.baselines = baselines;
    spec.policy.ranking = ranking_;
    return spec;
  }

  Runner::Options runner_options(const std::string& name) const {
    Runner::Options options;
    options.name = name;
    options.device = options_.device;
    options.sandbox = options_.sandbox;
    options.patience_s = kPatienceBaseline;
    options.payload_bytes_max += result_bytes(*model_, catalog_, scenario_.limits);
    return options;
  }

  int64_t ranks() const { return scenario_.limits.parallel.ranks(); }
  const Metric& metric() const { return *scenario_.metric; }

  // True when the oracle's device is a rank's too. Both may not fit, so only one is open at a time.
  bool in_turns() const {
    return divided_ ||
           (ranks() > 1 && ranks_share_devices(options_.device, ranks_here(ranks()) + 1));
  }

  RunMemoryBudget room() const {
    const auto devices = devices_of_ranks(options_.device, ranks_here(ranks()));
    return {*model_, catalog_, session_limits_, longest_request(correctness_, workloads_),
            std::ranges::count(devices, devices.front())};
  }

  bool is_too_large(const std::optional<TooLarge>& lack) {
    report_.too_large = lack;
    return lack && !give_up("the device", lack->what);
  }

  // Call before the weights are made.
  bool oracle_fits(const std::string& device) {
    const auto whole = room_of(device), rank = room_of(device_of_rank(options_.device, 0));
    if (!whole || !rank) return true;
    const RunMemoryBudget::Oracle oracle = room().oracle(*whole, *rank);
    divided_ = oracle.divided;
    report_.device = rank->name;
    report_.room = oracle.note;
    return !is_too_large(oracle.too_large);
  }

  // Call before the baseline opens. The scenario's pages are for a device with room for them.
  bool choose_pages() {
    const std::string first = device_of_rank(options_.device, 0);
    auto rank = room_of(first);
    if (options_.exact_pages || !rank) return true;
    const int sides = shares_states() ? 2 : 1;
    if (ranks() == 1 && oracle_->leave_room(room().wanted_bytes(sides))) rank = room_of(first);
    const RunMemoryBudget::Pages found = room().pages(*rank, sides);
    if (is_too_large(found.too_large)) return false;
    if (!found.why.empty()) return give_up("the baseline", found.why);
    if (!found.note.empty()) report_.room += (report_.room.empty() ? "" : "\n  ") + found.note;
    session_limits_.pages = report_.pages = found.pages;
    return true;
  }

  // Opens the oracle with the weights of the whole model.
  bool open_oracle() {
    enter("making the weights");
    if (!oracle_->has_weights()) oracle_->make_weights();
    enter("the oracle is opened");
    return oracle_->open() || give_up("the oracle", oracle_->why());
  }

  // Makes the weights, opens the oracle, and gets its answers to the correctness set.
  bool prepare() {
    correctness_ = scenario_.engine->correctness_requests(scenario_.limits, options_.requests_seed);
    const auto progress = [this](int64_t done, int64_t total) {
      say("making the weights, " + human_bytes(done) + " of " + human_bytes(total));
    };
    SessionSpec whole = spec({});
    // The next device behind the ranks', if there is one.
    whole.device = device_of_rank(options_.device, ranks() > 1 ? ranks_here(ranks()) : 0);
    if (!oracle_fits(whole.device)) return false;
    if (divided_) whole.device = options_.device;
    oracle_ = std::make_unique<ModelOracle>(ModelOracle::Setup{
        *model_, catalog_, scenario_, plugin_set_, std::move(whole), runner_options("oracle"),
        longest_request(correctness_, workloads_), progress, divided_});
    if (!open_oracle()) return false;
    for (const auto& block : oracle_->weights()) report_.weights_bytes += block.bytes;
    report_.random_weights = scenario_.weights.empty() && report_.weights_bytes > 0;
    report_.device = oracle_->info().device;
    enter("the oracle computes");
    if (!oracle_->drive(correctness_, round_options("the oracle computes"), wanted_))
      return give_up("the oracle", oracle_->why());
    if (in_turns()) divided_ ? oracle_->rest() : oracle_->close();
    if (ranks() > 1 && !divided_) {
      enter("making the weights");
      parts_ = make_weight_blocks(*model_, catalog_, spec({}), scenario_.weights.string(),
                                  scenario_.seed, progress);
    }
    checksum_ = checksum();
    return choose_pages();
  }

  // Checksum of the weights on all devices.
  uint64_t checksum() const {
    uint64_t sum = 0;
    for (const auto* blocks : {&oracle_->weights(), &parts_})
      for (const auto& block : *blocks) sum = sum * 31 + block.checksum();
    return sum;
  }
  // One block per rank.
  const WeightBlock* parts() const {
    return parts_.empty() ? oracle_->weights().data() : parts_.data();
  }

  RoundOptions round_options(const std::string& what) {
    RoundOptions options;
    options.vocab_size = scenario_.engine->form().vocabulary;
    options.progress = [this, what](const std::string& text) { say(what + ": " + text); };
    return options;
  }

  bool judge_baseline() {
    SideReport& r = report_.baseline;
    r.name = "baseline";
    Side::Setup setup{"baseline", plugin_set_.baseline_files(), spec(plugin_set_.ranked()),
                      parts(),    runner_options("baseline"),   false};
    setup.spec.shares_states = setup.runner.sends_fds = shares_states();
    baseline_ = std::make_unique<Side>(std::move(setup));
    enter("the baseline is opened");
    Round round;
    bool opened = baseline_->open();
    // The oracle's caches for a long request are tens of gigabytes.
    if (!opened && oracle_->leave_room()) opened = baseline_->open();
    enter("the baseline is checked");
    if (!opened ||
        !baseline_->drive(correctness_, round_options("the baseline is checked"), round)) {
      r.verdict = "failed";
      r.why = baseline_->why(), r.log = baseline_->log();
      return give_up("the baseline", r.why);
    }
    for (const auto& missing : baseline_->unusable()) report_.broken_plugins.push_back(missing);
    report_.device = baseline_->info().device;
    // A candidate uses the baseline's caches.
    if (shares_states())
      oracle_->leave_room(baseline_->own_bytes() - baseline_->info().states_bytes);
    baseline_check_s_ = round.end_s - round.start_s;
    r.ops = baseline_->ops();
    report_.provider_order = order_text(scenario_.providers, ranking_, r.ops, plugin_set_.ranked());
    r.private_bytes = baseline_->own_bytes();
    r.correctness.done = true;
    r.correctness.errors = compared("baseline", round);
    // The baseline has no rival: its limit is `verify`'s.
    const DType dtype = scenario_.limits.dtype;
    const double coarse = coarse_limit(scenario_.config, report_.layers, r.ops);
    const ErrorScale scale{dtype, report_.layers, verify_limit(dtype, report_.layers), coarse};
    r.correctness.limits = metric().baseline_limits(r.correctness.errors, scale);
    r.correctness.why = judge_errors(r.correctness.errors, r.correctness.limits);
    r.correctness.ok = r.correctness.why.empty();
    limits_ = metric().candidate_limits(r.correctness.errors, scale);
    if (r.correctness.ok) mutant_ = best_null_answer(wanted_, limits_, routed_, metric());
    measure_errors(r.correctness);
    const std::string null = r.correctness.ok ? untestable(mutant_) : "";
    r.verdict = !r.correctness.ok ? "wrong" : null.empty() ? "correct" : "untestable";
    // Timed batches differ from the oracle's. Where activations are rounded to f8e4m3, some round
    // to a neighbour in any dtype, and a few tokens go to other experts.
    coarse_ = coarse > 0;
    const bool few = coarse_ && dtype == DType::f32;
    tolerance_ = (few ? coarse : std::max(10 * limits_.rms, coarse)) * r.correctness.errors.spread;
    if (!null.empty()) return give_up("the oracle", null);
    return r.correctness.ok || give_up("the baseline", r.correctness.why);
  }

  // A side's answers beside the oracle's.
  ErrorNumbers compared(const std::string& side, const Round& round) {
    if (options_.pictures)
      add_pictures(metric(), side, round.requests, wanted_.requests, report_.pictures);
    return metric().compare(round.requests, wanted_.requests, routed_);
  }

  // Beside the limits of candidates, which the mutant has too.
  void measure_errors(CorrectnessRow& c) const {
    c.of_allowed = of_allowed(c.errors, limits_);
    c.mutant_of_allowed = mutant_.of_allowed;
  }

  double patience() const {
    if (options_.patience_s > 0) return options_.patience_s;
    const bool devices = ranks() > 1 && options_.device != "cpu";  // kernels wait for ranks there
    return std::max(devices ? kDeviceWaitS + 5 : kPatienceLeast, kPaceFactor * baseline_->gap_s());
  }

  Side::Setup candidate_setup(const CandidateGroup& group) {
    Side::Setup setup{group.name, plugin_set_.baseline_files(), spec(plugin_set_.ranked()),
                      parts(),    runner_options(group.name),   true};
    for (const auto* found : group.plugins) {
      setup.files.push_back({found->path, Trust::candidate});
      setup.spec.policy.candidates.push_back(plugin_name(*found));
    }
    if (shares_states()) setup.states_of = baseline_.get();
    setup.runner.patience_s = patience();
    setup.runner.open_patience_s =
        std::max(options_.patience_s > 0 ? options_.patience_s : kPatienceLeast,
                 kPaceFactor * baseline_->open_s());
    // The baseline's private memory includes a GPU's context, which is large.
    setup.runner.private_bytes_max =
        kPrivateSlack + 4 * baseline_->own_bytes() + baseline_->held_bytes();
    return setup;
  }

  SideReport judge_candidate(const CandidateGroup& group) {
    SideReport r = group.report();
    if (!group.refused.empty()) return r;
    enter(r.name + " is opened");
    Side side(candidate_setup(group));
    Round round;
    const auto failed = [&] {
      if (!baseline_->is_open()) give_up("the baseline", baseline_->why());
      if (side.is_hosts_fault()) give_up("the host", side.why());
      r.verdict = side.verdict(), r.why = side.why(), r.log = side.log();
      return r;
    };
    const bool opened = side.open();
    r.protections = side.protections();
    if (!opened) return failed();
    r.ops = side.ops();
    r.private_bytes = side.own_bytes();
    if (side.nodes_of(r.plugins) == 0 && side.wrong_in_check().empty()) {
      r.verdict = "unused", r.log = side.log();
      r.why = side.why_unused(group.plugins);
      return r;
    }
    enter(r.name + " is checked");
    RoundOptions options = round_options(r.name + " is checked");
    options.time_limit_s = candidate_limit(baseline_check_s_);
    if (!side.drive(correctness_, options, round) || side.works_on(*baseline_)) return failed();
    r.correctness = {true, true, compared(r.name, round), limits_, "", 0, 0};
    measure_errors(r.correctness);
    r.correctness.why = judge_errors(r.correctness.errors, limits_);
    r.correctness.ok = r.correctness.why.empty();
    r.why = side.wrong_in_check().empty() ? r.correctness.why : side.wrong_in_check();
    r.verdict = r.why.empty() ? "correct" : "wrong";
    if (r.why.empty()) time_candidate(side, r);  // only right candidates are timed
    if (r.verdict == "correct" && !side.close()) return failed();
    r.log = side.log();
    return r;
  }

  // A process can lift the protection of its mappings, so the weights are tested after each
  // candidate. Results after a change mean nothing.
  void check_weights(SideReport& r) {
    try {
      if (checksum() == checksum_) return;
      report_.spoiled = report_.error.empty();
      r.verdict = "violation";
      r.why = "it wrote to the weights, which are read only";
    } catch (const Error& e) {  // the process with the weights is gone
      if (r.verdict == "correct") r.verdict = "failed", r.why = e.what();
    }
    std::erase_if(to_audit_,
                  [&](const Answers& a) { return a.beside + 1 == report_.candidates.size(); });
    give_up(r.name, r.why);
  }

  TimedContext context(const Workload& workload, const std::string& who, int processes) {
    const auto progress = [this, at = who + ", " + workload.name + ", "](const std::string& text) {
      say(at + text);
    };
    const auto pairs = pairs_of_process(workload, processes, report_.speed_judged);
    const double limit_s = options_.time_limit_s;
    return {workload, scenario_, options_.requests_seed, pairs, 0, processes, limit_s, progress};
  }

  void time_baseline() {
    for (const Workload* workload : workloads_) {
      TimedPair timed;
      enter("baseline, " + workload->name);
      const bool ok = time_alone(*baseline_, context(*workload, "baseline", 1), timed);
      report_.baseline.workloads.push_back(workload_row(timed.baseline, *workload));
      if (!ok) return void(give_up("the baseline in " + workload->name, baseline_->why()));
      to_audit_.push_back({nobody, true, workload->name, std::move(timed.baseline.some)});
    }
  }

  void time_candidate(Side& side, SideReport& r) {
    ProcessPairs what{workloads_, report_.processes, {}, {}, {}};
    what.context = [&](const Workload& w) { return context(w, r.name, what.processes); };
    what.patience = [this] { return patience(); };
    what.enter = [&](const std::string& text) { enter(r.name + ", " + text); };
    auto timed = time_in_processes(*baseline_, side, what);
    const bool good = baseline_->is_open();
    for (size_t w = 0; w < timed.size(); ++w) {
      if (!timed[w].baseline.why.empty())
        give_up("the baseline in " + workloads_[w]->name, baseline_->why());
      if (good || !timed[w].pairs.empty()) add_workload(*workloads_[w], timed[w], r);
    }
    if (!good) give_up("the baseline", baseline_->why());
  }

  void add_workload(const Workload& workload, TimedPair& timed, SideReport& r) {
    WorkloadRow row = workload_row(timed.candidate, workload);
    const WorkloadRow own = workload_row(timed.baseline, workload);
    const size_t own_number = report_.candidates.size();
    // Keeps its answers for the audit, or those that the candidate's figures are compared with.
    if (own.rounds > 0)
      to_audit_.push_back({own_number, true, workload.name, std::move(timed.baseline.some)});
    if (row.why.empty()) {
      to_audit_.push_back({own_number, false, workload.name, std::move(timed.candidate.some)});
      row.same_tokens = same_tokens(timed.baseline.last, timed.candidate.last);
      row.verdict = "not judged";
      if (report_.speed_judged) {
        row.speedup = speedup_of(timed.pairs);
        row.verdict = speed_verdict(row.speedup);
      }
    }
    report_.baseline.keep(own);
    if (!row.why.empty()) r.reject(row, r.verdict == "violation" || timed.candidate.violation);
    r.workloads.push_back(std::move(row));
  }

  // Audits the remaining timed answers, also after a later failure.
  void audit_all() {
    if (to_audit_.empty()) return;
    if (!oracle_->is_open()) {  // now there is memory for it
      baseline_.reset();
      parts_.clear();
      if (!open_oracle()) return;
    }
    for (const auto& audited : std::exchange(to_audit_, {})) {
      SideReport& r = audited.baseline ? report_.baseline : report_.candidates[audited.beside];
      const std::string why = audit_rounds(audited.some);
      if (why.empty()) continue;
      for (auto& row : r.workloads)
        if (row.workload == audited.workload) row.why = why, r.reject(row);
      if (audited.baseline) give_up("the baseline in " + audited.workload, why);
    }
  }

  // The audited requests are chosen after the answers.
  std::string audit_rounds(const Round& timed) {
    constexpr size_t kSample = 4;
    const auto requests = audit_requests(timed, kSample, std::random_device{}(), *scenario_.engine);
    if (requests.empty()) return "none of its requests was answered";
    Round scored;
    enter("the oracle audits");
    if (!oracle_->drive(requests, round_options("the oracle audits"), scored)) {
      give_up("the oracle", oracle_->why());
      return "its memory and graphs could not be checked";
    }
    return audit(timed, scored, tolerance_, limits_, routed_ || coarse_, scenario_);
  }

  // Timed answers of a workload: of the candidate with this number, or of the baseline beside it.
  static constexpr size_t nobody = SIZE_MAX;
  struct Answers {
    size_t beside;
    bool baseline;
    std::string workload;
    Round some;
  };

  const Scenario& scenario_;
  const RunOptions& options_;
  const Catalog& catalog_;
  const PluginSet& plugin_set_;
  std::unique_ptr<Model> model_;
  std::vector<const Workload*> workloads_;
  Limits session_limits_;  // the scenario's, with pages that fit
  bool divided_ = false;   // the oracle is divided like the model
  RunReport report_;
  Spent spent_;
  bool routed_ = false, coarse_ = false;
  Ranking ranking_;
  std::vector<WeightBlock> parts_;  // by rank; empty: one rank
  uint64_t checksum_ = 0;
  std::unique_ptr<ModelOracle> oracle_;
  std::unique_ptr<Side> baseline_;
  std::vector<Request> correctness_;
  Round wanted_;
  std::vector<Answers> to_audit_;
  ErrorLimits limits_;
  NullAnswer mutant_;
  double tolerance_ = 0, baseline_check_s_ = 0;
};
}  // namespace

RunReport run_scenario(const Scenario& scenario, const RunOptions& options, const Catalog& catalog,
                       const PluginSet& plugin_set) {
  check_run(scenario, options, plugin_set);
  need_room(scenario, options, catalog);
  const DeviceLock turn = devices_of_run(scenario, options);
  const auto watch = GpuTelemetry::of(options.device);
  RunOptions watched = options;
  watched.progress = [&](const std::string& text) {
    if (watch) watch->look();
    if (options.progress) options.progress(text);
  };
  RunReport report = ScenarioRun(scenario, watched, catalog, plugin_set).run();
  report.driver = identity_of_device(options.device).driver;
  report.nccl = nccl_setting(scenario.limits.parallel.ranks(), options.device);
  if (watch) report.clocks = watch->seen();
  return report;
}

}  // namespace fk
