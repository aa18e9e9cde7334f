// SPDX-License-Identifier: Apache-2.0
#include "core/cli/bench/bench_candidates.hpp"

#include <algorithm>
#include <cstdio>
#include <deque>
#include <future>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/cli/bench/archived.hpp"
#include "core/cli/candidate.hpp"
#include "core/cli/output.hpp"
#include "core/cli/verb.hpp"
#include "core/cli/verdict_progress.hpp"
#include "core/report/table.hpp"
#include "core/report/trace_events.hpp"
#include "core/report/verdict_documents.hpp"
#include "core/report/verdict_text.hpp"

namespace fk {

namespace {

namespace fs = std::filesystem;

// A candidate when its turn comes: a plugin, the words of a compiler that failed, or an error.
struct Built {
  fs::path plugin;
  std::string words;
  std::optional<Error> error;
};

Built built(const BenchCandidate& candidate) {
  Built out{.plugin = candidate.plugin, .words = {}, .error = {}};
  if (candidate.folder.empty()) return out;
  try {
    out.plugin = build_candidate(candidate.folder, &out.words).value_or("");
  } catch (const HostError&) {
    throw;
  } catch (const Error& error) {
    out.error = error;
  }
  return out;
}

// Compiles ahead of the judge.
class Builders {
 public:
  Builders(const std::vector<BenchCandidate>& candidates, int jobs, bool beside_judge)
      : candidates_(candidates), jobs_(static_cast<size_t>(jobs)), beside_judge_(beside_judge) {}

  // The next candidate, in the order of the list.
  Built next() {
    if (ahead_.empty()) fill();
    if (!beside_judge_)
      for (const auto& one : ahead_) one.wait();
    Built out = ahead_.front().get();
    ahead_.pop_front();
    if (beside_judge_) fill();
    return out;
  }

 private:
  void fill() {
    // With one job, a folder is compiled when its turn comes.
    const auto when = jobs_ > 1 ? std::launch::async : std::launch::deferred;
    while (begun_ < candidates_.size() && ahead_.size() < jobs_)
      ahead_.push_back(std::async(when, built, std::cref(candidates_[begun_++])));
  }

  const std::vector<BenchCandidate>& candidates_;
  const size_t jobs_;
  const bool beside_judge_;
  size_t begun_ = 0;
  std::deque<std::future<Built>> ahead_;
};

void print_notes(const std::vector<std::string>& notes) {
  for (const auto& note : notes) std::fprintf(stderr, "fk-host: %s\n", excerpt(note, 1000).c_str());
}

struct Judged {
  std::string name;
  std::optional<Verdict> verdict;
  std::optional<Error> error;  // the question was wrong for this candidate
  int exit_code() const { return verdict ? verdict->exit_code() : kExitUsage; }
  std::string status() const { return verdict ? name_of(verdict->status) : "error"; }
  std::string why() const { return verdict ? verdict->why : error->what(); }
  bool good() const { return verdict && is_right(verdict->status); }
};

// The line that is printed when a verdict is there.
void print_line(const Judged& one, size_t number, size_t all, double seconds) {
  const bool colour = colour_wanted(stdout);
  const std::string ratio = one.verdict ? ratio_text(one.verdict->aggregate.ratio) : "";
  print_report(std::to_string(number) + " of " + std::to_string(all) + "  " +
               excerpt(one.name, 80) + ": " +
               styled(one.status(), one.good() ? Style::good : Style::bad, colour) +
               (ratio.empty() ? "" : ", " + ratio + " times the baseline") + ", took " +
               human_duration(seconds) + "\n");
  if (!one.good()) print_report("  why " + excerpt(one.why(), 300) + "\n");
  if (!one.good() && one.verdict && !one.verdict->next.empty())
    print_report("  next " + excerpt(one.verdict->next, 300) + "\n");
  std::fflush(stdout);
}

void print_table(const std::vector<Judged>& all) {
  Table table({{"candidate"},
               {"status"},
               {"x baseline (99 %)", Align::right},
               {"op"},
               {"right", Align::right},
               {"receipt"}});
  std::map<std::string, int> counts;
  for (const Judged& one : all) {
    ++counts[one.status()];
    const Cell status(one.status(), one.good() ? Style::good : Style::bad);
    if (!one.verdict) {
      table.row({excerpt(one.name, 80), status});
      continue;
    }
    const Verdict& v = *one.verdict;
    table.row({excerpt(one.name, 80), status, ratio_text(v.aggregate.ratio), join(ops_of(v), ", "),
               std::to_string(v.aggregate.right) + " of " + std::to_string(v.aggregate.cases),
               v.receipt});
  }
  std::vector<std::string> texts;
  for (const auto& [status, count] : counts) texts.push_back(std::to_string(count) + " " + status);
  std::printf("\n%s", table.text(colour_wanted(stdout), 0).c_str());
  print_report(std::to_string(all.size()) + " candidates: " + join(texts, ", ") +
               ". `fk-host receipts RECEIPT` prints the verdict on one.\n");
}

FK_DOCUMENT(verdicts, VerdictsDocument);

VerdictsDocument document_of(const std::vector<Judged>& all) {
  VerdictsDocument out;
  for (const Judged& one : all) {
    if (one.verdict)
      out.verdicts.push_back({*one.verdict});
    else
      out.errors.push_back(
          {one.name, one.error->where(), one.error->what_text(), one.error->hint()});
  }
  return out;
}

void add_candidates_of(const fs::path& entry, std::vector<BenchCandidate>& out) {
  std::error_code gone;
  if (!fs::is_directory(entry, gone)) {
    if (entry.extension() == ".so")
      out.push_back({.name = entry.stem(), .folder = {}, .plugin = entry});
    return;
  }
  if (has_sources(entry)) {
    out.push_back({.name = entry.filename(), .folder = entry, .plugin = {}});
    return;
  }
  std::vector<fs::path> inside;
  for (const auto& file : fs::recursive_directory_iterator(entry, gone))
    if (file.path().extension() == ".so") inside.push_back(file.path());
  std::sort(inside.begin(), inside.end());
  for (const auto& file : inside) add_candidates_of(file, out);
}

// The judge's steps, by this process's clock, for --trace.
class StepTimes {
 public:
  explicit StepTimes(std::string file) : file_(std::move(file)) {}

  // Any thread may call it.
  void step(const std::string& what) {
    const std::lock_guard lock(mutex_);
    steps_.emplace_back(now_seconds(), what);
  }
  // Without a file it writes nothing.
  void write(const Json& document) {
    if (file_.empty()) return;
    TraceEvents events;
    const std::lock_guard lock(mutex_);
    const int64_t process = steps_.empty() ? 0 : events.process("the judge");
    if (process) events.thread(process, 1, "steps");
    for (size_t i = 0; i < steps_.size(); ++i) {
      const double end = i + 1 < steps_.size() ? steps_[i + 1].first : now_seconds();
      events.slice(process, 1, steps_[i].second, steps_[i].first - steps_[0].first,
                   end - steps_[0].first, {});
    }
    add_bench_times(document, events);
    write_trace(events, file_);
  }

 private:
  std::string file_;
  std::mutex mutex_;
  std::vector<std::pair<double, std::string>> steps_;  // their begins
};

}  // namespace

std::vector<BenchCandidate> all_candidates() {
  const fs::path root = paths::candidates_dir();
  std::vector<fs::path> entries;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(root, none))
    if (!entry.path().filename().string().starts_with(".")) entries.push_back(entry.path());
  std::sort(entries.begin(), entries.end());
  std::vector<BenchCandidate> out;
  for (const auto& entry : entries) add_candidates_of(entry, out);
  if (out.empty()) fail(root.string(), "there is no candidate in it", "fk-host new OP --name NAME");
  return out;
}

int bench_one(const BenchCandidate& candidate, BenchRequest request) {
  std::string words;
  Verdict verdict;
  StepTimes times(request.trace);
  std::vector<std::string> notes;
  request.question.candidate = candidate.plugin;
  if (!candidate.folder.empty())
    request.question.candidate = build_candidate(candidate.folder, &words).value_or("");
  if (request.question.candidate.empty()) {
    verdict = not_compiled(candidate.folder, request, words);
  } else {
    std::fputs(words.c_str(), stderr);
    std::optional<VerdictProgress> progress(std::in_place);
    JudgeProgress listener = progress->listener();
    listener.step = [&](const std::string& what) { times.step(what), progress->step(what); };
    Answer found = answer_of(request, the_judge(request.seeds(), listener));
    verdict = std::move(found.verdict);
    notes = std::move(found.notes);
  }
  if (request.archived)
    archive_verdict(request.archive, request.question.device, candidate.folder,
                    request.question.candidate, verdict, notes);
  if (!request.json->with_report() && !verdict.stale.empty()) notes.push_back(verdict.stale);
  print_notes(notes);
  times.write(to_json(verdict));
  if (request.json->given()) request.json->write(to_json(verdict));
  if (request.json->with_report())
    std::printf("%s", verdict_text(verdict, colour_wanted(stdout), request.verbose).c_str());
  return verdict.exit_code();
}

int bench_many(const std::vector<BenchCandidate>& candidates, const BenchRequest& request,
               int jobs) {
  Builders builders(candidates, jobs, request.question.device != "cpu");
  std::optional<VerdictProgress> progress;
  StepTimes times(request.trace);
  const auto step = [&](const std::string& what) { times.step(what), progress->step(what); };
  const AskJudge judge =
      the_judge(request.seeds(), {step, [&](const std::string& what) { progress->ended(what); }});
  std::vector<Judged> all;
  std::vector<std::string> notes;
  int code = kExitOk;
  for (const BenchCandidate& candidate : candidates) {
    const double start = now_seconds();
    Judged one{.name = candidate.name, .verdict = {}, .error = {}};
    Built ready = builders.next();
    one.error = ready.error;
    BenchRequest its = request;
    its.question.candidate = ready.plugin;
    if (!one.error && ready.plugin.empty())
      one.verdict = not_compiled(candidate.folder, request, ready.words);
    try {
      progress.emplace();
      if (!one.error && !one.verdict) {
        Answer found = answer_of(its, judge);
        one.verdict = std::move(found.verdict);
        for (auto& note : found.notes)
          if (!contains(notes, note)) notes.push_back(std::move(note));
        if (!one.verdict->stale.empty()) notes.push_back(one.verdict->stale);
      }
    } catch (const HostError&) {
      throw;
    } catch (const Error& error) {
      one.error = error;
    }
    progress.reset();
    if (one.verdict && request.archived)
      archive_verdict(request.archive, request.question.device, candidate.folder, ready.plugin,
                      *one.verdict, notes);
    code = std::max(code, one.exit_code());
    if (request.json->with_report())
      print_line(one, all.size() + 1, candidates.size(), now_seconds() - start);
    all.push_back(std::move(one));
  }
  print_notes(notes);
  const Json out = document(document_of(all));
  times.write(out);
  if (request.json->given()) request.json->write(out);
  if (request.json->with_report()) print_table(all);
  return code;
}

}  // namespace fk
