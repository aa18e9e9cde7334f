// SPDX-License-Identifier: Apache-2.0
#include "core/judge/judge.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/sha256.hpp"
#include "core/base/spent.hpp"
#include "core/base/text.hpp"
#include "core/cases/numerics/families.hpp"
#include "core/check/check.hpp"
#include "core/judge/best_baseline.hpp"
#include "core/judge/candidate_memory.hpp"
#include "core/judge/case_run.hpp"
#include "core/judge/gpu_telemetry.hpp"
#include "core/judge/plan/case_plan.hpp"
#include "core/judge/plan/hidden_cases.hpp"
#include "core/judge/process_inspection.hpp"
#include "core/judge/race/timing_penalty.hpp"
#include "core/measure/background_work.hpp"
#include "core/plugin/library.hpp"
#include "core/worker/symbols.hpp"

namespace fk {

namespace {

constexpr const char* kClosing = "closing cases";
constexpr int kLooks = 3;  // in a row, at the device: the last user may still be leaving

PluginFacts facts_of(const FoundPlugin& plugin, const std::filesystem::path& file) {
  return {plugin_name(plugin), plugin.note.version, plugin.path.string(), sha256_file(file)};
}

class Judge {
 public:
  Judge(const FoundPlugin& candidate, const PluginSet& plugin_set, const Catalog& catalog,
        const Secret* secret, JudgePool& room, const JudgeOptions& options)
      : candidate_(candidate),
        plugin_set_(plugin_set),
        catalog_(catalog),
        given_(secret),
        room_(room),
        options_(options) {}
  Judge(const Judge&) = delete;
  ~Judge() { room_.listen_to(nullptr); }  // also after a bad request without a case

  Verdict run() {
    const double start = now_seconds();
    room_.budget() = Budget(options_.budget_s);
    spent_.enter("waiting for the device");
    room_.take_turn(
        std::any_of(candidate_.note.ops.begin(), candidate_.note.ops.end(),
                    [this](const auto& op) {
                      const Contract* const contract = catalog_.find(op.op);
                      const auto& asked = options_.ops;
                      return contract && contract->comm() &&
                             (asked.empty() || std::count(asked.begin(), asked.end(), op.op));
                    }),
        [this] { step("waiting for others on the device"); });
    spent_.enter("reading the file");
    gpu_ = GpuTelemetry::of(room_.device());
    if (gpu_) gpu_->listen();
    room_.listen_to(gpu_.get());
    // One copy of the file is hashed, run and named in the verdict, whatever happens to the
    // original.
    file_ = loadable_copy(candidate_.path);
    out_.candidate = facts_of(candidate_, file_);
    out_.device = room_.device();
    const JudgeOptions& o = options_;
    out_.policy = {o.size,     o.cases,      o.families,      o.seconds,  o.threads,
                   o.ops,      o.patience_s, room_.sandbox(), o.captured, "",
                   o.variants, o.dtypes,     o.budget_s,      o.thorough};
    const bool runs = read_file_alone() && list_cases();
    // A folder of captured cases may change before the next judgement.
    const bool ahead = runs && options_.captured.empty();
    secret_ = given_ ? *given_ : ahead ? room_.secret_for(asked_for()) : Secret::draw();
    out_.commitment = secret_.commitment();
    try {
      if (runs && start_runners(requests_[0].ranks)) all_cases();
    } catch (const Error& error) {
      out_.status = Status::environment;
      out_.why = error.what();
      // A failure of the current row stays; any other status becomes environment.
      if (row_ && !is_failure(row_->status)) row_->status = Status::environment;
      if (row_ && row_->status == Status::environment) row_->why = out_.why;
      name_unreached(out_.cases, out_.why);
    }
    if (gpu_) out_.device = room_.device_name();  // its name in the oracle's process
    spent_.enter("ending its processes");
    for (auto& [ranks, stand] : stands_) {
      if (!stand.runners) continue;  // the oracle could not start
      const std::string log = stand.runners->log();
      if (!log.empty()) out_.log += (out_.log.empty() ? "" : "\n") + log;
      room_.leave(std::move(stand.runners));
    }
    spent_.enter("naming functions");
    for (CaseVerdict& row : out_.cases) {
      if (!is_failure(row.status)) continue;
      row.why = with_symbols(row.why, candidate_.path);
      row.evidence = with_symbols(row.evidence, candidate_.path);
    }
    out_.why = with_symbols(out_.why, candidate_.path);
    out_.log = with_symbols(out_.log, candidate_.path);
    settle(out_.cases);
    conclude(out_);
    out_.secret = secret_.hex();
    spent_.enter("");
    for (const auto& [what, seconds] : spent_.all()) out_.spent.push_back({what, seconds});
    out_.seconds = now_seconds() - start;
    return std::move(out_);
  }

 private:
  void step(const std::string& what) const {
    if (options_.on_step) options_.on_step(what);
  }

  bool end(Status status, const std::string& why) {
    out_.status = status;
    out_.why = why;
    return false;
  }

  // Checks that need no run of the plugin.
  bool read_file_alone() {
    if (!candidate_.note.hash.empty() && candidate_.note.hash != sha256_file(file_))
      return end(Status::environment, "the file changed during the judging");
    if (const std::string broken = broken_rule(file_, candidate_.trust); !broken.empty())
      return end(Status::lint, broken);
    if (candidate_.note.ops.empty())
      return end(Status::load, candidate_.error.empty() ? "it has no ops" : candidate_.error);
    std::vector<std::string> known;
    for (const auto& op : candidate_.note.ops) {
      known.push_back(op.op);
      if (options_.ops.empty() || std::count(options_.ops.begin(), options_.ops.end(), op.op)) {
        if (const std::string why = note_mismatch(op, catalog_); !why.empty())
          return end(Status::load, why);
        ops_.push_back(op.op);
      }
    }
    for (const auto& op : options_.ops)
      if (!std::count(known.begin(), known.end(), op))
        fail("--op", plugin_name(candidate_) + " has no op `" + op + "`", did_you_mean(op, known));
    return true;
  }

  // Makes the candidate's processes for this number of ranks the active ones.
  bool start_runners(int ranks) {
    for (auto& [other, stand] : stands_)
      if (other != ranks) stand.runners->freeze();
    if (const auto known = stands_.find(ranks); known != stands_.end()) {
      candidate_runner_ = known->second.runners.get();
      return true;
    }
    step("starting processes");
    spent_.enter("starting processes");
    const bool children = std::any_of(
        ops_.begin(), ops_.end(), [&](const std::string& op) { return catalog_.at(op).level > 1; });
    Stand& stand = stands_[ranks];
    stand.runners = room_.enter(candidate_, children, options_.patience_s, ranks);
    candidate_runner_ = stand.runners.get();
    stand.memory = std::make_unique<CandidateMemory>(room_, *candidate_runner_);
    for (int r = 0; r < ranks; ++r)
      stand.before.push_back(ProcessInspection::of(candidate_runner_->pid(r)));
    const auto loaded = candidate_runner_->failed()
                            ? std::nullopt
                            : candidate_runner_->load({{file_, candidate_.trust}});
    if (out_.protections.empty()) {
      out_.protections = candidate_runner_->protections();
      if (room_.device() != "cpu") out_.protections.push_back(stand.memory->protection());
    }
    CaseVerdict told;
    if (!loaded) {
      const RunnerFailure& failure = candidate_runner_->failure();
      blame_failure(told, failure);
      // Before the seal no code of the candidate has run.
      const bool hosts = candidate_runner_->protections().empty() || failure.kind == "refused" ||
                         failure.kind == kBusy;
      if (hosts) told.status = Status::environment;
      if (hosts) told.next.clear();
    } else if (std::string why = loaded->errors.back(); !why.empty()) {
      // prefix; the candidate's author does not know the copy
      const std::string copy = file_.string() + ": ";
      told.status = Status::load;
      told.why = starts_with(why, copy) ? why.substr(copy.size()) : why;
      if (why.find("undefined symbol") != std::string::npos)
        told.next = "Define what is missing; `fk-host build` finds it when it links.";
    } else {
      return true;
    }
    // No case can be judged further. Cases that were not asked for are dropped.
    std::erase_if(out_.cases, [](const CaseVerdict& row) {
      return row.beside && row.status == Status::environment && row.why.empty();
    });
    for (CaseVerdict& row : out_.cases) {
      if (row.status != Status::environment || !row.why.empty()) continue;
      row.status = told.status;
      row.why = told.why;
      row.evidence = told.evidence;
      row.next = told.next;
    }
    out_.why = told.why;
    return false;
  }

  // ---- cases ----

  bool list_cases() {
    for (CasePlanEntry& entry : case_plan(ops_, catalog_, options_)) {
      out_.cases.push_back(std::move(entry.row));
      // Later entries test rows and values, and range cases test the size. Ordinary inputs are
      // enough for both.
      const bool range = entry.asked.size == kRangeSize && options_.families.empty();
      const auto families = entry.after || range
                                ? std::vector<std::string>{family_name(Family::ordinary)}
                                : options_.families;
      requests_.push_back({entry.asked, room_.device(), options_.threads, families,
                           out_.cases.back().ranks, entry.hidden_cases, entry.after,
                           options_.thorough});
      entries_.push_back(std::move(entry));
    }
    if (!out_.cases.empty()) return true;
    return end(Status::unused, "there are no " + options_.size + " cases of its ops");
  }

  // Requests whose contents may be made before the next judgement.
  std::vector<CaseRunRequest> asked_for() const {
    std::vector<CaseRunRequest> out;
    for (size_t i = 0; i < requests_.size(); ++i)
      if (!out_.cases[i].left_out) out.push_back(requests_[i]);
    return out;
  }

  void all_cases() {
    bool failed = false, timed = false;
    const auto to_judge = static_cast<size_t>(
        std::ranges::count_if(out_.cases, [](const CaseVerdict& c) { return !c.left_out; }));
    size_t begun = 0;
    SmallerCases smaller;
    HiddenCases hidden;
    for (const size_t i : order_of(entries_, secret_)) {
      CaseVerdict& row = out_.cases[i];
      if (row.left_out) continue;
      place_ = " (" + std::to_string(++begun) + " of " + std::to_string(to_judge) + ")";
      row_ = &row;
      room_.budget().need();
      if (!entries_[i].extra) timed = false;
      if (!entries_[i].cheap && has_failed(row.op)) {
        leave_for_failure(row, entries_[i].after);
        continue;
      }
      const bool after = entries_[i].after;
      if (after ? failed || !hidden.wants(row, entries_[i].hidden_cases)
                : !smaller.wants(row, entries_[i].other_dtype)) {
        row.status = Status::unused;
        continue;
      }
      if (catalog_.at(row.op).comm() && cannot_talk(row, room_.device())) continue;
      if (candidate_runner_->failed()) {
        row.status = Status::unused;
        row.why = "the process ended in an earlier case";
        row.next = "Mend the earlier case first.";
        continue;
      }
      if (!start_runners(row.ranks)) return;  // it fails to load with this number of ranks
      // A case with several dtypes or variants is timed in the first that the candidate takes.
      // After a failure, nothing more of the op is timed.
      one_case(requests_[i], row,
               !timed && !failed && !row.beside && entries_[i].timed && options_.seconds > 0);
      timed |= row.status != Status::refused;
      if (!after) smaller.judged(row);
      // The process ended itself in destroy(), after its last answer.
      if (!is_failure(row.status) && candidate_runner_->failed() &&
          candidate_runner_->failure().kind != kBusy)
        blame_failure(row, candidate_runner_->failure());
      look_from_outside(row);
      hidden.judged(row);
      room_.remember_taken(row);
      failed |= is_failure(row.status);
      if (options_.on_case_end) options_.on_case_end(row);
    }
    for (const auto& op : ops_) conformance(op);
  }

  bool has_failed(const std::string& op) const {
    return std::ranges::any_of(
        out_.cases, [&](const CaseVerdict& c) { return c.op == op && is_failure(c.status); });
  }

  void one_case(const CaseRunRequest& request, CaseVerdict& row, bool timed) {
    if (is_hidden(row.variant)) {
      const Contract& contract = catalog_.at(row.op);
      name_case(row, contract, pose(hidden_by(request.asked, secret_), contract, &catalog_));
    }
    CaseRun case_run(room_, *candidate_runner_, plugin_name(candidate_), row, request,
                     options_.seconds, secret_, spent_);
    const std::string what = row.op + ", case " + row.case_name +
                             (row.variant.empty() ? "" : ", " + row.variant) +
                             (row.routing.empty() ? "" : ", " + row.routing + " routing");
    step(what + ": values" + place_);
    const auto phase = [this](const char* name) { spent_.enter(name); };
    try {
      phase("contents and answers");
      candidate_runner_->freeze();  // memory that others take is not its own
      if (!case_run.open()) return phase(kClosing);
      phase("create and prepare");
      memory().begin();
      if (!case_run.sit()) return phase(kClosing);
      memory().lend(case_run.given_bytes());
      if (took_memory(row, "create() and prepare()")) return phase(kClosing);
      phase("values");
      memory().hold();
      if (!case_run.values() || took_memory(row)) return phase(kClosing);
      row.status = Status::correct;
      bool raced = false;
      if (timed) {
        step(what + ": timing" + place_);
        phase("the baseline's values");
        raced = race(case_run, row);
        phase("a look at the device");
      }
      // While its instances exist; their end may remove traces.
      look_from_outside(row);
      if (!raced) return phase(kClosing);
      if (is_right(row.status) && !took_memory(row)) look_at_device();
      look_at_kernels(case_run, row);
    } catch (const SomebodyElse&) {
      throw;
    } catch (const Error&) {
      // A provider without memory is not at fault if the candidate took it.
      if (!took_memory(row)) throw;
    }
    phase(kClosing);
  }

  // Races against the best baseline; after its failure, against the next. False: there is none.
  bool race(CaseRun& case_run, CaseVerdict& row) {
    for (std::string failures;;) {
      CandidateClient* const baseline = baseline_of(case_run, row);
      memory().hold();  // with the baseline's memory
      if (!baseline && !failures.empty()) fail("the baselines", "none is left" + failures);
      if (!baseline) return false;
      spent_.enter("timing");
      try {
        case_run.race(*baseline);
        return true;
      } catch (const CaseRun::BaselineFailed& failed) {
        if (took_memory(row)) return true;  // the baseline may have needed that memory
        const RankGroup& its = baseline->runners();
        if (its.failed() && its.failure().kind == "environment") fail("the baseline", failed.why);
        failures += "; " + row.baseline + " failed in the race: " + failed.why;
        pass_over(*baseline, failed.why, row, room_);
        row.baseline.clear();
      }
    }
  }

  // True when `who` (calls, or create() and prepare()) took memory beyond the granted bytes.
  bool took_memory(CaseVerdict& row, const char* who = "calls") {
    std::string somebody;
    const std::string why = memory().taken(who, somebody);
    if (!somebody.empty()) throw SomebodyElse("the device", somebody);
    if (why.empty()) return false;
    row.status = Status::memory;
    row.why = why;
    return true;
  }
  CandidateMemory& memory() { return *stands_.at(candidate_runner_->size()).memory; }
  struct SomebodyElse : Error {
    using Error::Error;
  };

  // Tests the ABI's rules on an op that is right in all cases: wrong values come first for its
  // author. Comes after values and times, which it must not disturb. A fault goes to the first
  // right case.
  void conformance(const std::string& op) {
    if (std::any_of(out_.cases.begin(), out_.cases.end(),
                    [&](const CaseVerdict& c) { return c.op == op && is_failure(c.status); }))
      return;
    const auto row = std::find_if(out_.cases.begin(), out_.cases.end(), [&](const CaseVerdict& c) {
      return c.op == op && is_right(c.status);
    });
    if (row == out_.cases.end() || candidate_runner_->failed()) return;
    const auto small = ranks_of(catalog_.at(op), catalog_.at(op).cases, "smoke");
    if (small.empty() || !start_runners(small[0]) || candidate_runner_->failed()) return;
    step(op + ": conformance");
    spent_.enter("conformance");
    CandidateClient client(*candidate_runner_, plugin_name(candidate_));
    candidate_runner_->thaw();
    const auto found = client.conformance({.op = op,
                                           .device = room_.device(),
                                           .threads = options_.threads,
                                           .seed = secret_.seed("conformance of " + op)});
    if (found && found->rule.empty()) return;
    if (!found) return blame(*row, client);
    row->status = found->rule == "deterministic" ? Status::nondeterministic : Status::violation;
    row->rule = found->rule;
    row->why = found->text;
    row->evidence = "in case " + found->case_name + " by itself, as `fk-host check` has it";
  }

  // A row above L1 may launch a library's kernels: a child may be the baseline's.
  void look_at_kernels(const CaseRun& case_run, CaseVerdict& row) const {
    const bool children = catalog_.at(row.op).level > 1;
    if (candidate_.trust == Trust::baseline || children || is_failure(row.status) ||
        case_run.kernel_of_library().empty())
      return;
    row.status = Status::cheating;
    row.why = "it runs a kernel of a vendor library";
    row.evidence = case_run.kernel_of_library();
  }

  // Looks for foreign code and signal handlers after the calls. A baseline may link anything.
  void look_from_outside(CaseVerdict& row) const {
    if (candidate_.trust == Trust::baseline) return;
    if (is_failure(row.status) || candidate_runner_->failed()) return;
    const int ranks = candidate_runner_->size();
    const RankGroup& beside = room_.baseline(ranks);
    for (int r = 0; r < ranks && !is_failure(row.status); ++r)
      look_at_process(candidate_runner_->pid(r), stands_.at(ranks).before[static_cast<size_t>(r)],
                      file_.filename().string(),
                      room_.device() == "cpu" ? std::nullopt : std::optional(beside.pid(r)), row);
  }

  // Call while the buffers exist: a kernel that uses them ends when they are gone.
  void look_at_device() {
    const auto right = [](const CaseVerdict& row) { return is_right(row.status); };
    if (room_.device() == "cpu" || candidate_runner_->failed() ||
        std::none_of(out_.cases.begin(), out_.cases.end(), right))
      return;
    const IdleWait about{room_.device(), candidate_runner_->size()};
    const auto wait_s = [&] { return room_.ask(about); };
    candidate_runner_->freeze();
    const std::string evidence = works_while_stopped(*candidate_runner_, wait_s, kLooks);
    for (CaseVerdict& row : out_.cases) {
      if (evidence.empty() || !right(row)) continue;
      row.status = Status::cheating;
      row.why = "the device does work for it while its process is stopped";
      row.evidence = evidence;
    }
  }

  CandidateClient* baseline_of(CaseRun& case_run, CaseVerdict& row) {
    baseline_ = best_baseline(case_run, catalog_.at(row.op), row, room_, plugin_set_);
    if (!baseline_) return nullptr;
    row.baseline = baseline_->plugin();
    for (const auto& b : plugin_set_.baselines)
      if (plugin_name(b) == row.baseline) remember(b);
    if (plugin_set_.rival) remember(*plugin_set_.rival);
    return baseline_.get();
  }

  void remember(const FoundPlugin& baseline) {
    for (const auto& known : out_.baselines)
      if (known.name == plugin_name(baseline)) return;
    out_.baselines.push_back(facts_of(baseline, baseline.path));
  }

  const FoundPlugin& candidate_;
  const PluginSet& plugin_set_;
  const Catalog& catalog_;
  const Secret* given_;
  JudgePool& room_;
  const JudgeOptions& options_;
  Verdict out_;
  CaseVerdict* row_ = nullptr;  // the current or last row
  std::string place_;           // its place among the cases to judge: " (3 of 12)"
  Secret secret_;
  std::vector<std::string> ops_;
  std::vector<CaseRunRequest> requests_;  // of out_.cases
  std::vector<CasePlanEntry> entries_;    // without their rows
  // The candidate's processes by number of ranks, with their state before the candidate was loaded.
  struct Stand {
    std::unique_ptr<RankGroup> runners;
    std::vector<ProcessInspection> before;
    std::unique_ptr<CandidateMemory> memory;
  };
  std::map<int, Stand> stands_;
  RankGroup* candidate_runner_ = nullptr;  // the active processes
  std::filesystem::path file_;             // the candidate's copy
  std::unique_ptr<CandidateClient> baseline_;
  std::unique_ptr<GpuTelemetry> gpu_;  // null on the CPU
  Spent spent_;
};

}  // namespace

Verdict judge(const FoundPlugin& candidate, const PluginSet& plugin_set, const Catalog& catalog,
              const Secret* secret, JudgePool& room, const JudgeOptions& options) {
  return Judge(candidate, plugin_set, catalog, secret, room, options).run();
}

}  // namespace fk
