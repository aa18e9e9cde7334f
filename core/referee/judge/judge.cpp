// SPDX-License-Identifier: Apache-2.0
#include "core/referee/judge/judge.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/sha256.hpp"
#include "core/base/text.hpp"
#include "core/plugin/library.hpp"
#include "core/referee/judge/clocks.hpp"
#include "core/referee/judge/docket.hpp"
#include "core/referee/judge/exam.hpp"
#include "core/runtime/ranking.hpp"
#include "core/worker/crash.hpp"
#include "core/worker/mapped_code.hpp"
#include "core/worker/process.hpp"

namespace fk {

namespace {

Status status_of_failure(const RunnerFailure& failure) {
  if (failure.kind == "crashed" && failure.text.find(kPastEnd) != std::string::npos)
    return Status::illegal_access;
  static const std::map<std::string, Status> kinds = {
      {"crashed", Status::crashed},         {"exited", Status::crashed},
      {"threw", Status::crashed},           {"hang", Status::hang},
      {"memory", Status::memory},           {"protocol", Status::cheating},
      {"environment", Status::environment}, {"op_failed", Status::violation}};
  const auto it = kinds.find(failure.kind);
  return it == kinds.end() ? Status::violation : it->second;
}

PluginFacts facts_of(const FoundPlugin& plugin, const std::filesystem::path& file) {
  return {plugin_name(plugin), plugin.note.version, plugin.path.string(), sha256_file(file)};
}

class Judge {
 public:
  Judge(const FoundPlugin& candidate, const Roster& roster, const Catalog& catalog,
        const Secret* secret, Courtroom& room, const JudgeOptions& options)
      : candidate_(candidate),
        roster_(roster),
        catalog_(catalog),
        given_(secret),
        room_(room),
        options_(options) {}

  Verdict run() {
    const double start = now_seconds();
    // One copy is read, hashed, run and named in the verdict, whoever writes the file meanwhile.
    file_ = loadable_copy(candidate_.path);
    out_.candidate = facts_of(candidate_, file_);
    out_.device = room_.device();
    out_.policy = {options_.size,       options_.cases,
                   options_.families,   options_.seconds,
                   options_.threads,    options_.ops,
                   options_.patience_s, room_.sandbox(),
                   options_.captured,   "",
                   options_.variants,   options_.dtypes};
    const bool runs = read_file_alone() && list_cases();
    // What is in a folder of captured cases may have changed the next time.
    const bool ahead = runs && options_.captured.empty();
    secret_ = given_ ? *given_ : ahead ? room_.secret_for(requests_) : Secret::draw();
    out_.commitment = secret_.commitment();
    try {
      if (runs && start_runners()) all_cases();
    } catch (const Error& error) {
      out_.status = Status::environment;
      out_.why = error.what();
    }
    if (candidate_runner_) out_.log = candidate_runner_->log();
    conclude(out_);
    out_.secret = secret_.hex();
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

  // What can be told without running it.
  bool read_file_alone() {
    if (!candidate_.note.hash.empty() && candidate_.note.hash != hash_file(file_))
      fail(candidate_.path.string(), "was written while it was judged",
           "ask again when whoever writes it is done");
    for (const auto& finding : lint(file_, candidate_.trust))
      if (finding.fatal) return end(Status::lint, finding.rule + ": " + finding.text);
    if (candidate_.note.ops.empty())
      return end(Status::load, candidate_.error.empty() ? "it has no ops" : candidate_.error);
    std::vector<std::string> known;
    for (const auto& op : candidate_.note.ops) {
      known.push_back(op.op);
      if (options_.ops.empty() || std::count(options_.ops.begin(), options_.ops.end(), op.op)) {
        if (const std::string why = note_mismatch(op, catalog_); !why.empty())
          return end(Status::load, op.op + ": " + why);
        ops_.push_back(op.op);
      }
    }
    for (const auto& op : options_.ops)
      if (!std::count(known.begin(), known.end(), op))
        fail("--op", plugin_name(candidate_) + " has no op `" + op + "`", did_you_mean(op, known));
    return true;
  }

  bool start_runners() {
    step("starting processes");
    const bool children = std::any_of(
        ops_.begin(), ops_.end(), [&](const std::string& op) { return catalog_.at(op).level > 1; });
    candidate_runner_ = room_.enter(plugin_name(candidate_), children, options_.patience_s);
    code_ = mapped_code(candidate_runner_->pid());
    handled_ = handled_signals(candidate_runner_->pid());
    const auto loaded = candidate_runner_->failed()
                            ? std::nullopt
                            : candidate_runner_->load({{file_, candidate_.trust}});
    out_.protections = candidate_runner_->protections();
    if (!loaded)
      return end(status_of_failure(candidate_runner_->failure()),
                 candidate_runner_->failure().sentence());
    if (!loaded->errors.back().empty()) return end(Status::load, loaded->errors.back());
    return true;
  }

  // ---- cases ----

  bool list_cases() {
    for (DocketEntry& entry : docket(ops_, catalog_, options_)) {
      out_.cases.push_back(std::move(entry.row));
      extra_.push_back(entry.extra);
      requests_.push_back(
          {std::move(entry.asked), room_.device(), options_.threads, options_.families});
    }
    if (!out_.cases.empty()) return true;
    return end(Status::unused, "there are no " + options_.size + " cases of its ops");
  }

  void all_cases() {
    bool failed = false, timed = false;
    for (size_t i = 0; i < out_.cases.size(); ++i) {
      CaseVerdict& row = out_.cases[i];
      if (!extra_[i]) timed = false;
      if (catalog_.at(row.op).comm()) {
        row.status = Status::unjudged;
        row.why =
            "it is called by several ranks at once, and ranks are not judged against a baseline";
        row.next = "`fk-host check` judges the values of every rank; `fk-host bench " + row.op +
                   "` races providers that are trusted.";
        continue;
      }
      if (candidate_runner_->failed()) {
        row.status = Status::unused;
        row.why = "its process had ended";
        continue;
      }
      // Of a case in several dtypes or variants the first that it takes is timed, and who is wrong
      // somewhere is not timed elsewhere.
      one_case(requests_[i], row, !timed && !failed && options_.seconds > 0);
      timed |= row.status != Status::refused;
      look_from_outside(row);
      failed |= is_failure(row.status);
    }
    for (const auto& op : ops_) conduct(op);
    settle(out_.cases);
  }

  void one_case(const ExamRequest& request, CaseVerdict& row, bool timed) {
    Exam exam(room_, *candidate_runner_, plugin_name(candidate_), row, request, options_.seconds,
              secret_);
    const std::string what = row.op + ", case " + row.case_name +
                             (row.variant.empty() ? "" : ", " + row.variant) +
                             (row.routing.empty() ? "" : ", " + row.routing + " routing");
    step(what + ": values");
    if (!exam.open() || !exam.values()) return;
    row.status = Status::correct;
    if (!timed) return;
    step(what + ": timing");
    if (Sitter* baseline = baseline_of(exam, row)) exam.race(*baseline);
  }

  // After the values and times, which it must not disturb. What is found is the fault of the first
  // case that is right.
  void conduct(const std::string& op) {
    const auto row = std::find_if(out_.cases.begin(), out_.cases.end(), [&](const CaseVerdict& c) {
      return c.op == op && is_right(c.status);
    });
    if (row == out_.cases.end() || candidate_runner_->failed()) return;
    step(op + ": conduct");
    Sitter sitter(*candidate_runner_, plugin_name(candidate_));
    candidate_runner_->thaw();
    const auto found = sitter.conduct({{"op", op},
                                       {"device", room_.device()},
                                       {"threads", options_.threads},
                                       {"seed", secret_.seed("conduct of " + op)}});
    if (found && found->rule.empty()) return;
    if (!found) return blame(*row, sitter);
    row->status = found->rule == "deterministic" ? Status::nondeterministic : Status::violation;
    row->rule = found->rule;
    row->why = found->text;
    row->evidence = "in case " + found->case_name + " by itself, as `fk-host check` has it";
  }

  // Code that is neither the candidate's nor what it may link, and signals that it handles: a
  // handler runs when nothing was called. A driver loads and handles what it
  // wants, and a baseline links what it wants.
  void look_from_outside(CaseVerdict& row) const {
    if (room_.device() != "cpu" || candidate_.trust == Trust::baseline) return;
    if (is_failure(row.status) || candidate_runner_->failed()) return;
    const pid_t pid = candidate_runner_->pid();
    const std::string found = foreign_code(code_, mapped_code(pid), file_.filename().string());
    if (!found.empty()) {
      row.status = Status::cheating;
      row.why = "it runs code of another file";
      row.evidence = found;
      return;
    }
    const uint64_t more = handled_signals(pid).value_or(0) & ~handled_.value_or(~uint64_t{0});
    constexpr int kOfThreads = 31;  // from here on they are the C library's or nobody sends them
    for (int number = 1; more && number <= kOfThreads; ++number) {
      if (!(more >> (number - 1) & 1)) continue;
      row.status = Status::violation;
      row.rule = "state";
      row.why = "it has put a handler of its own on " + signal_name(number);
      return;
    }
  }

  // The best baseline that takes the case and is right in it; null when there is none.
  Sitter* baseline_of(Exam& exam, CaseVerdict& row) {
    std::vector<std::string> names;
    const Ranking ranking = ranking_of(room_.device());
    if (const auto* best = ranked(ranking, row.op, "")) names = *best;
    for (const auto& name : roster_.ranked())
      if (!std::count(names.begin(), names.end(), name)) names.push_back(name);
    for (const auto& name : names) {
      const auto has = [&](const FoundPlugin& b) {
        return plugin_name(b) == name &&
               std::any_of(b.note.ops.begin(), b.note.ops.end(),
                           [&](const auto& op) { return op.op == row.op; });
      };
      const auto found = std::find_if(roster_.baselines.begin(), roster_.baselines.end(), has);
      if (found == roster_.baselines.end()) continue;
      auto sitter = std::make_unique<Sitter>(room_.baseline(), name);
      if (!exam.baseline_is_right(*sitter)) {
        if (room_.baseline().failed())
          throw Error("the baseline", room_.baseline().failure().sentence());
        continue;
      }
      row.baseline = name;
      remember(*found);
      baseline_ = std::move(sitter);
      return baseline_.get();
    }
    return nullptr;
  }

  void remember(const FoundPlugin& baseline) {
    for (const auto& known : out_.baselines)
      if (known.name == plugin_name(baseline)) return;
    out_.baselines.push_back(facts_of(baseline, baseline.path));
  }

  const FoundPlugin& candidate_;
  const Roster& roster_;
  const Catalog& catalog_;
  const Secret* given_;
  Courtroom& room_;
  const JudgeOptions& options_;
  Verdict out_;
  Secret secret_;
  std::vector<std::string> ops_;
  std::vector<ExamRequest> requests_;  // of out_.cases
  std::vector<bool> extra_;            // whether one is a variant beside the case as written
  std::unique_ptr<Runner> candidate_runner_;
  std::filesystem::path file_;  // the candidate's copy
  // What its process had before the candidate came.
  std::set<std::string> code_;
  std::optional<uint64_t> handled_;
  std::unique_ptr<Sitter> baseline_;
};

}  // namespace

void blame(CaseVerdict& row, Sitter& sitter) {
  if (sitter.runner().failed()) {
    row.status = status_of_failure(sitter.runner().failure());
    row.why = sitter.runner().failure().sentence();
    row.evidence = sitter.runner().failure().log.substr(0, 2000);
    if (sitter.runner().failure().kind == "forbidden") row.rule = "sandbox";
    return;
  }
  const std::string& words = sitter.words();
  const auto says = [&](const char* what) { return words.find(what) != std::string::npos; };
  row.why = words;
  if (starts_with(words, "refused: ")) {
    row.status = Status::refused;
    row.why = words.substr(9);
  } else if (starts_with(words, "capture: ")) {
    row.status = Status::graph_unsafe;
    row.rule = "graph";
    row.why = words.substr(9);
  } else if (says("illegal memory access") || says("misaligned address") ||
             says("invalid program counter")) {
    row.status = Status::illegal_access;
  } else {
    row.status = Status::violation;
    row.rule = starts_with(words, "prepare:")   ? "prepare"
               : starts_with(words, "forward:") ? "forward"
               : starts_with(words, "plan:")    ? "plan"
                                                : "create";
  }
}

Verdict judge(const FoundPlugin& candidate, const Roster& roster, const Catalog& catalog,
              const Secret* secret, Courtroom& room, const JudgeOptions& options) {
  return Judge(candidate, roster, catalog, secret, room, options).run();
}

}  // namespace fk
