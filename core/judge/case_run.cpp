// SPDX-License-Identifier: Apache-2.0
#include "core/judge/case_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/judge/plan/hidden_cases.hpp"
#include "core/judge/plan/hidden_shapes.hpp"
#include "core/judge/race/case_race.hpp"

namespace fk {

namespace {

constexpr const char* kNewContents = "timing: contents for another race";

// True if two equal calls are wrong alike, apart from rounding.
bool is_as_wrong(const SetFinding& a, const SetFinding& b) {
  constexpr double kAlike = 0.01;
  return a.ok == b.ok && a.wrong.count == b.wrong.count && a.wrong.first == b.wrong.first &&
         (a.worst == b.worst || std::abs(a.worst - b.worst) <= kAlike * b.worst);
}

}  // namespace

CaseRun::CaseRun(JudgePool& room, RankGroup& runners, const std::string& plugin, CaseVerdict& row,
                 CaseRunRequest request, double seconds, const Secret& secret, Spent& spent)
    : room_(room),
      candidate_(runners, plugin),
      row_(row),
      request_(std::move(request)),
      seconds_(seconds),
      secret_(secret),
      spent_(spent),
      random_(secret.seed("order of calls/" + request_.key())) {}

CaseRun::~CaseRun() {
  if (!case_run_) return;
  const int id = case_run_->id;
  room_.close(std::move(case_run_));
  RankGroup& runners = candidate_.runners();
  if (candidate_.lost()) runners.condemn("crashed", "the device was lost");
  if (runners.failed()) return;
  runners.thaw();
  (void)runners.ask_all(CaseClose{id});
}

bool CaseRun::open() {
  const AskedCase asked = hidden_by(request_.asked, secret_);
  // No contents are made for a refused case.
  candidate_.runners().thaw();
  const bool takes = candidate_.takes(asked, request_.device);
  candidate_.runners().freeze();
  if (!takes) {
    blame(row_, candidate_);
    return false;
  }
  case_run_ = room_.open(request_, secret_);
  const CaseOpened& answer = case_run_->answer;
  row_.oracle = answer.oracle;
  row_.why = answer.unjudged;
  if (!row_.why.empty()) {
    row_.status = Status::unjudged;
    return false;
  }
  row_.nulls = answer.nulls;
  for (MutantRow& mutant : row_.nulls) mutant.worst = error_from(mutant.worst);
  row_.skew = answer.skew;
  row_.generated = answer.generated;
  // A third is held back for timed calls on unseen contents.
  const int each = static_cast<int>(answer.families.size()) / answer.versions;
  const int seen = answer.versions * std::max(1, each - each / 3);
  facts_ = {.families = answer.families,
            .sets = answer.sets,
            .seen = seen,
            .kept = seen,
            .versions = answer.versions,
            .calls_most = answer.calls_most,
            .plan = answer.plan,
            .own_devices = answer.own_devices,
            .known = answer.known,
            .bytes = answer.bytes,
            .flops = answer.flops,
            .wire = answer.wire,
            .roofline_s = answer.roofline_s,
            .floor_s = answer.floor_s};
  for (const auto& left : answer.left_out) {
    FamilyRow row;
    row.family = left.family;
    row.status = "left out: " + left.why;
    row_.families.push_back(std::move(row));
  }
  shape_ = {.case_run = case_run_->id,
            .asked = asked,
            .device = request_.device,
            .threads = std::max(1, request_.threads / request_.ranks),  // they share the cores
            .sets = facts_.sets,
            .read_bytes = answer.read_bytes,
            .written_bytes = answer.written_bytes};
  return true;
}

bool CaseRun::sit() {
  candidate_.runners().thaw();
  if (candidate_.sit(shape_, case_run_->fds)) return true;
  blame(row_, candidate_);
  return false;
}

std::vector<int> CaseRun::ring(int first, int count) const {
  std::vector<int> out(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) out[static_cast<size_t>(i)] = (first + i) % facts_.sets;
  return out;
}

int CaseRun::some_first() {
  constexpr int kGraphs = 3;
  const bool any = request_.device == "cpu" || request_.ranks > 1;
  const int places = any ? facts_.sets : std::min(facts_.sets, kGraphs);
  return static_cast<int>(random_.integer(0, places)) * (facts_.sets / places);
}

std::vector<int> CaseRun::some_contents(int first, int count, Of of) {
  std::vector<int> out = ring(first, count);
  for (int& c : out) {
    c %= facts_.versions;
    if (of == Of::all) {
      c += facts_.versions * static_cast<int>(random_.integer(0, facts_.seen / facts_.versions));
    } else {
      const auto& some = ordinary_.at(static_cast<size_t>(c));
      c = some[static_cast<size_t>(random_.integer(0, static_cast<int64_t>(some.size())))];
    }
  }
  return out;
}

// An earlier race dealt its held-back contents to the candidate, even if a baseline failed in it.
// So each race gets new ones.
void CaseRun::renew_contents() {
  if (races_++ == 0 || facts_.kept >= static_cast<int>(facts_.families.size())) return;
  spent_.enter(kNewContents);
  const std::string which = "race " + std::to_string(races_) + "/" + request_.key();
  room_.ask(CaseRenew{case_run_->id, facts_.kept, secret_.seed(which)});
  spent_.enter("timing");
}

void CaseRun::count(const Look& look) {
  FamilyRow& row = by_family_[facts_.families[static_cast<size_t>(look.content)]];
  row.family = facts_.families[static_cast<size_t>(look.content)];
  ++row.calls;
  row.worst = std::max(row.worst, look.worst);
  if (!look.undecided.empty()) {
    row.status = "left out: " + look.undecided;
  } else if (row.status.empty() || !look.ok) {
    row.status = name_of(look.ok ? Status::correct : Status::wrong);
  }
}

bool CaseRun::accept(const std::vector<Look>& looks, bool timed) {
  bool good = true;
  for (const Look& look : looks) {
    count(look);
    if (!good) continue;
    const std::string& family = facts_.families[static_cast<size_t>(look.content)];
    if (look.changed && candidate_.deterministic) {
      good = false;
      row_.status = Status::nondeterministic;
      row_.why = "equal inputs gave different bits at other addresses, or over other poison";
    } else if (!look.ok) {
      good = false;
      row_.rule = look.rule;
      row_.why = look.text;
      row_.status = look.rule.empty()        ? Status::wrong
                    : look.rule == "guard"   ? Status::illegal_access
                    : look.rule == kLateRule ? Status::cheating
                                             : Status::violation;
      if (look.rule == kLateRule) row_.evidence = look.text;
      if (const std::string width = width_of(row_.variant); look.rule.empty() && !width.empty())
        row_.evidence = "supports() took a " + width + ", which occurs in no case: " + row_.sizes;
      if (look.rule.empty() && family != "ordinary") row_.why += " (inputs: " + family + ")";
      if (timed && look.stale) {
        row_.status = Status::cheating;
        row_.evidence = "a timed call left the answer to the inputs of another call";
      } else if (timed) {
        row_.evidence = "in the judged time; the same inputs were answered rightly before";
      }
    }
    if (!row_.errors) row_.errors.emplace();
    row_.errors->worst = std::max(row_.errors->worst, look.worst);
    if (look.ok || !row_.errors->pattern.empty()) continue;
    row_.errors->pattern = look.wrong.pattern.empty() ? look.text : look.wrong.pattern;
    if (row_.status == Status::wrong) row_.next = look.wrong.next;
    row_.errors->name = look.wrong.name;
    row_.errors->axes = look.wrong.axes;
    row_.errors->figures = look.wrong.figures;
    row_.errors->field = look.field;
    row_.errors->limit = look.wrong.limit;
    row_.errors->wrong = look.wrong.count;
    row_.errors->compared = look.wrong.compared;
    row_.errors->first_bad = look.wrong.first;
    row_.errors->got = look.wrong.got;
    row_.errors->want = look.wrong.want;
  }
  return good;
}

void CaseRun::repeat_wrong_call(int set, const Look& wrong) {
  constexpr int kRuns = 5;
  int64_t least = wrong.wrong.count, most = least;
  bool same = true;
  for (int run = 1; run < kRuns; ++run) {
    std::vector<Look> looks;
    if (!take(candidate_, set, {wrong.content}, looks, {.words = false})) {
      row_.evidence = "when the wrong call was repeated: " + candidate_.why();
      return;
    }
    const Look& again = looks.at(0);
    if (!again.rule.empty()) return;
    same = is_as_wrong(again, wrong);
    least = std::min(least, again.ok ? 0 : again.wrong.count);
    most = std::max(most, again.wrong.count);
    if (!same) break;
  }
  if (same || !row_.errors) return;
  ErrorFigures& errors = *row_.errors;
  errors.name = "differs_from_run_to_run";
  errors.figures = {{"wrong_least", static_cast<double>(least)},
                    {"wrong_most", static_cast<double>(most)}};
  const std::string before = errors.pattern;
  errors.pattern =
      "differs from run to run: " +
      (least == most ? "equal calls have other wrong elements"
                     : fmt::format("{} to {} wrong elements in equal calls", least, most));
  const auto at = row_.why.find(before);
  if (at != std::string::npos) row_.why.replace(at, before.size(), errors.pattern);
  row_.next =
      "Look for a missing barrier or atomic, for state that a call leaves to the next one, and for "
      "reads of unwritten memory.";
}

// Calls on all contents that may be seen, twice; the second time in other sets, over other poison.
// Ranks have a third round with other contents, which shows data left for each other in a set. If
// ranks wait long for each other, unseen contents are held back too.
bool CaseRun::values() {
  constexpr int kAtOnce = 16, kLeast = 24;
  constexpr double kSeconds = 1;
  const bool together = request_.ranks > 1;
  const int some = std::max(1, kAtOnce / facts_.versions) * facts_.versions;
  const int most = together ? std::min(facts_.sets, some) : facts_.sets;
  const double start = now_seconds();
  std::vector<int> firsts;
  for (int round = 0; round < (together ? 3 : 2); ++round) {
    poison_ = round;
    for (int done = 0; done < facts_.seen; done += most) {
      if (together && round == 0 && done >= kLeast && now_seconds() - start > kSeconds)
        facts_.seen = done;
      std::vector<int> contents;
      for (int i = done; i < std::min(done + most, facts_.seen); ++i)
        contents.push_back(round == 2 ? (i + facts_.versions) % facts_.seen : i);
      if (contents.empty()) break;
      const auto chunk = static_cast<size_t>(done / most);
      // The sets half of all sets away have another neighbour at their end (case_layout).
      if (round == 0 || together) firsts.push_back(some_first());
      const int first = round == 0   ? firsts.back()
                        : !together  ? (firsts[chunk] + (facts_.sets / 2 | 1)) % facts_.sets
                        : round == 1 ? firsts.back()
                                     : firsts[firsts.size() / 2 + chunk];
      std::rotate(contents.begin(), contents.begin() + first % facts_.versions, contents.end());
      std::vector<Look> looks;
      if (!take(candidate_, first, contents, looks, {})) {
        blame(row_, candidate_);
        return false;
      }
      const bool good = accept(looks, false);
      if (!good) {
        fill_families();
        if (row_.status == Status::wrong)
          repeat_wrong_call((first + static_cast<int>(looks.size()) - 1) % facts_.sets,
                            looks.back());
        return false;
      }
    }
  }
  fill_families();
  if (!nothing_stray()) return false;
  std::string passed;
  for (const MutantRow& mutant : row_.nulls)
    if (!mutant.rejected && mutant.why.empty())
      passed += (passed.empty() ? "" : "; ") + mutant.name;
  if (passed.empty()) return true;
  row_.status = Status::untestable;
  row_.why = "mutants would pass: " + passed;
  return false;
}

// A write outside of a call would show at the next call on that set, and be blamed on its caller.
// So it is looked for before another side calls.
bool CaseRun::nothing_stray() {
  const std::string text = room_.ask(CaseDamage{case_run_->id});
  if (text.empty()) return true;
  blame_stray("next to a tensor of a call that was not made: " + text);
  return false;
}

void CaseRun::blame_stray(const std::string& text) {
  row_.status = Status::illegal_access;
  row_.rule = "guard";
  row_.why = text;
}

void CaseRun::fill_families() {
  std::erase_if(row_.families, [&](const FamilyRow& row) { return by_family_.count(row.family); });
  for (const auto& [name, row] : by_family_) row_.families.push_back(row);
}

// Calls once on each of the first contents. A wrong baseline is only passed over.
bool CaseRun::baseline_is_right(CandidateClient& baseline, std::string& why) {
  candidate_.runners().freeze();
  baseline.runners().thaw();
  std::vector<int> contents;
  for (int i = 0; i < std::min(facts_.sets, facts_.seen); ++i) contents.push_back(i);
  std::vector<Look> looks;
  if (!baseline.sit(shape_, case_run_->fds) || !take(baseline, 0, contents, looks, {})) {
    why = baseline.why();
    if (!baseline.runners().failed() && starts_with(baseline.words(), "refused: ")) why.clear();
    return false;
  }
  const auto wrong =
      std::find_if(looks.begin(), looks.end(), [](const Look& look) { return !look.ok; });
  if (wrong == looks.end()) return true;
  why = kItIsWrong + wrong->text;
  return false;
}

void CaseRun::race(CandidateClient& baseline) {
  ordinary_.assign(static_cast<size_t>(facts_.versions), {});
  for (int i = 0; i < facts_.seen; ++i)
    if (facts_.families[static_cast<size_t>(i)] == "ordinary")
      ordinary_[static_cast<size_t>(i % facts_.versions)].push_back(i);
  race_case(*this, baseline);
  fill_families();
}

double CaseRun::quickest_s(CandidateClient& baseline) {
  constexpr int kTimes = 3, kCalls = 8;
  const std::vector<int> contents =
      ring(0, std::min({facts_.sets, facts_.seen, facts_.calls_most, kCalls}));
  double out = HUGE_VAL;
  for (int i = 0; i < kTimes; ++i) {
    std::vector<Look> looks;
    const auto call = take(baseline, 0, contents, looks, {.flush = true});
    if (!call) break;
    out = std::min(out, call->claim_s);
  }
  return out;
}

}  // namespace fk
