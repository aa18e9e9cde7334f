// SPDX-License-Identifier: Apache-2.0
#include "core/judge/case_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>

#include "core/base/clock.hpp"
#include "core/base/cores.hpp"
#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/judge/plan/hidden_cases.hpp"
#include "core/judge/plan/hidden_shapes.hpp"
#include "core/judge/rank_buffers.hpp"

namespace fk {

namespace {

constexpr const char* kNewContents = "timing: contents for another race";

// Seconds that processes have waited for a core. Empty for a single rank on a device.
std::vector<double> waits_of(const RankGroup& runners, bool on_cpu) {
  std::vector<double> out;
  for (int r = 0; (on_cpu || runners.size() > 1) && r < runners.size(); ++r)
    out.push_back(waited_for_core_s(runners.pid(r)));
  return out;
}

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
  families_ = answer.families;
  sets_ = answer.sets;
  plan_ = answer.plan;
  bytes_ = answer.bytes;
  flops_ = answer.flops;
  known_ = answer.known;
  own_devices_ = answer.own_devices;
  wire_ = answer.wire;
  roofline_s_ = answer.roofline_s;
  floor_s_ = answer.floor_s;
  // A third is held back for timed calls on unseen contents.
  versions_ = answer.versions;
  calls_most_ = answer.calls_most;
  const int each = static_cast<int>(families_.size()) / versions_;
  seen_ = kept_ = versions_ * std::max(1, each - each / 3);
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
            .sets = sets_,
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
  for (int i = 0; i < count; ++i) out[static_cast<size_t>(i)] = (first + i) % sets_;
  return out;
}

int CaseRun::some_first() {
  constexpr int kGraphs = 3;
  const bool any = request_.device == "cpu" || request_.ranks > 1;
  const int places = any ? sets_ : std::min(sets_, kGraphs);
  return static_cast<int>(random_.integer(0, places)) * (sets_ / places);
}

std::vector<int> CaseRun::some_contents(int first, int count, Of of) {
  std::vector<int> out = ring(first, count);
  for (int& c : out) {
    c %= versions_;
    if (of == Of::all) {
      c += versions_ * static_cast<int>(random_.integer(0, seen_ / versions_));
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
  if (races_++ == 0 || kept_ >= static_cast<int>(families_.size())) return;
  spent_.enter(kNewContents);
  const std::string which = "race " + std::to_string(races_) + "/" + request_.key();
  room_.ask(CaseRenew{case_run_->id, kept_, secret_.seed(which)});
  spent_.enter("timing");
}

void CaseRun::enter(const char* part) {
  if (flush_) spent_.enter(std::string("timing") + part);
}

// Makes one sample. Nothing when the client failed.
std::optional<CandidateClient::Call> CaseRun::take(CandidateClient& client, int first,
                                                   const std::vector<int>& contents,
                                                   std::vector<Look>& looks, Way way, int core,
                                                   bool words) {
  room_.budget().need();
  const int count = static_cast<int>(contents.size());
  const std::vector<int> sets = ring(first, count);
  const bool spare = &client == &candidate_ && count < sets_;
  const int beside = spare ? ring(first + count, 1)[0] : -1,
            its = some_contents(first + count, 1, Of::all)[0];
  const auto deal = [&](bool numbers_only) {
    room_.ask(CaseDeal{.case_run = case_run_->id,
                       .sets = sets,
                       .contents = contents,
                       .poison = poison_ % 2 == 1,
                       .numbers_only = numbers_only,
                       .flush = flush_ && !numbers_only,
                       .flush_all = way == Way::cold && !numbers_only,
                       .beside = numbers_only ? -1 : beside,
                       .beside_content = its});
  };
  // A worker is stopped outside of its own turns. So it cannot watch the deal, or slow the other
  // side.
  RankGroup& runners = client.runners();
  enter(": contents");
  runners.freeze();
  // A graph is captured with numbers of other contents.
  const bool singly = way == Way::warm && request_.device != "cpu";  // run_warm()
  std::vector<std::vector<int>> graphs;
  if (!singly) graphs.push_back(sets);
  for (size_t i = 0; singly && i < sets.size(); ++i) graphs.push_back({sets[i]});
  const bool armed = std::all_of(graphs.begin(), graphs.end(),
                                 [&](const auto& graph) { return client.armed(graph); });
  const bool ahead = plan_ || (request_.device != "cpu" && !armed);
  if (ahead) deal(true);
  if (ahead || all_cold_ || (flush_ && client.keeps)) {
    enter(": graphs and own memory");
    const bool once = all_cold_ && &client != &candidate_;
    for (const auto& graph : graphs) {
      runners.thaw();  // a worker is stopped after each answer
      if (!client.arm(case_run_->id, plan_, graph, graph.empty() ? first : graph[0],
                      static_cast<int>(graph.size()), all_cold_, once))
        return std::nullopt;
    }
    runners.freeze();
    enter(": contents");
  }
  deal(false);
  enter(": calls");
  // A device may still work after its process reports the end.
  std::optional<JudgePool::Standby> turn;
  if (request_.device != "cpu") turn.emplace(room_, CaseTurn{case_run_->id, sets});
  if (core >= 0 && request_.device == "cpu" && runners.size() == 1)
    leave_core_to_first_thread(runners.pid(0), core);
  // The clock starts before the message, so work that starts at once is on it.
  double since = now_seconds(), early_s = 0;
  const double worked = runners.worked_s();
  const std::vector<double> waited = waits_of(runners, request_.device == "cpu");
  runners.thaw();
  if (way == Way::late) {
    std::this_thread::sleep_for(std::chrono::duration<double>(late_s_));
    // Each thread works a little to continue and to wait again.
    const double waking = 50e-6 * runners.size() + 20e-6 * runners.threads();
    early_s = std::max(0.0, runners.worked_s() - worked - waking);
    since = now_seconds();
  }
  const auto done = [&] {
    if (turn) turn->go();
  };
  auto call = client.run(case_run_->id, first, count, since, core, singly, way == Way::eager, done);
  if (!call) return std::nullopt;
  call->early_s = early_s;
  if (&client == &candidate_ && call->facts && kernel_of_library_.empty())
    kernel_of_library_ = call->facts->of_library;
  enter(": answers");
  if (turn) {
    turn->wait();
    call->wall_s = now_seconds() - since;
  }
  runners.freeze();
  // Work after the answer counts until all threads are stopped: at most the worked time beyond the
  // claim. The baseline has some as well.
  const double stopping = now_seconds() - (since + call->wall_s);
  const double unclaimed = runners.worked_s() - worked - call->own_s * count;
  call->wall_s += std::clamp(unclaimed, 0.0, std::max(0.0, stopping));
  const std::vector<double> waits = waits_of(runners, request_.device == "cpu");
  for (size_t r = 0; r < waits.size(); ++r)
    call->waited_s = std::max(call->waited_s, waits[r] - waited[r]);
  const int side = &client == &candidate_ ? kCandidateSide : side_of_baseline(client.plugin());
  auto found = room_.ask(CaseLook{case_run_->id, sets, side, words});
  looks.assign(contents.size(), {});
  for (size_t i = 0; i < contents.size(); ++i) looks[i].content = contents[i];
  for (auto& [at, finding] : found) {
    if (at >= looks.size()) break;
    Look& look = looks[at];
    finding.content = look.content;
    finding.worst = error_from(finding.worst);
    look = std::move(finding);
    // The oracle compares nothing after the first wrong set.
    if (!look.ok) looks.resize(at + 1);
  }
  enter("");
  return call;
}

int CaseRun::side_of_baseline(const std::string& plugin) {
  const auto known = std::find(baselines_.begin(), baselines_.end(), plugin);
  const auto at = static_cast<int>(known - baselines_.begin());
  if (known == baselines_.end()) baselines_.push_back(plugin);
  return kCandidateSide + 1 + at;
}

void CaseRun::count(const Look& look) {
  FamilyRow& row = by_family_[families_[static_cast<size_t>(look.content)]];
  row.family = families_[static_cast<size_t>(look.content)];
  ++row.calls;
  row.worst = std::max(row.worst, look.worst);
  if (!look.undecided.empty()) {
    row.status = "left out: " + look.undecided;
  } else if (row.status.empty() || !look.ok) {
    row.status = name_of(look.ok ? Status::correct : Status::wrong);
  }
}

// Fills the row from the oracle's findings. False when something is wrong.
bool CaseRun::accept(const std::vector<Look>& looks, bool timed) {
  bool good = true;
  for (const Look& look : looks) {
    count(look);
    if (!good) continue;
    const std::string& family = families_[static_cast<size_t>(look.content)];
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
    if (!take(candidate_, set, {wrong.content}, looks, Way::usual, -1, false)) {
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
  const int some = std::max(1, kAtOnce / versions_) * versions_;
  const int most = together ? std::min(sets_, some) : sets_;
  const double start = now_seconds();
  std::vector<int> firsts;
  for (int round = 0; round < (together ? 3 : 2); ++round) {
    poison_ = round;
    for (int done = 0; done < seen_; done += most) {
      if (together && round == 0 && done >= kLeast && now_seconds() - start > kSeconds)
        seen_ = done;
      std::vector<int> contents;
      for (int i = done; i < std::min(done + most, seen_); ++i)
        contents.push_back(round == 2 ? (i + versions_) % seen_ : i);
      if (contents.empty()) break;
      const auto chunk = static_cast<size_t>(done / most);
      // The sets half of all sets away have another neighbour at their end (case_layout).
      if (round == 0 || together) firsts.push_back(some_first());
      const int first = round == 0   ? firsts.back()
                        : !together  ? (firsts[chunk] + (sets_ / 2 | 1)) % sets_
                        : round == 1 ? firsts.back()
                                     : firsts[firsts.size() / 2 + chunk];
      std::rotate(contents.begin(), contents.begin() + first % versions_, contents.end());
      std::vector<Look> looks;
      if (!take(candidate_, first, contents, looks)) {
        blame(row_, candidate_);
        return false;
      }
      const bool good = accept(looks, false);
      if (!good) {
        fill_families();
        if (row_.status == Status::wrong)
          repeat_wrong_call((first + static_cast<int>(looks.size()) - 1) % sets_, looks.back());
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
  for (int i = 0; i < std::min(sets_, seen_); ++i) contents.push_back(i);
  std::vector<Look> looks;
  if (!baseline.sit(shape_, case_run_->fds) || !take(baseline, 0, contents, looks)) {
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

double CaseRun::quickest_s(CandidateClient& baseline) {
  constexpr int kTimes = 3, kCalls = 8;
  const std::vector<int> contents = ring(0, std::min({sets_, seen_, calls_most_, kCalls}));
  double out = HUGE_VAL;
  flush_ = true;
  for (int i = 0; i < kTimes; ++i) {
    std::vector<Look> looks;
    const auto call = take(baseline, 0, contents, looks);
    if (!call) break;
    out = std::min(out, call->claim_s);
  }
  flush_ = false;
  return out;
}

}  // namespace fk
