// SPDX-License-Identifier: Apache-2.0
// The timed part of an examination: candidate and baseline in turns, every call looked at.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/referee/judge/exam.hpp"
#include "core/referee/roster.hpp"

namespace fk {

namespace {

constexpr int kFreshRounds = 4, kSeenOfRanks = 8, kLateRounds = 3, kColdRounds = 3,
              kAloneRounds = 8, kWarmRounds = 3;
constexpr double kSecondLookSeconds = 0.5, kColdSeconds = 0.1;
constexpr int kFamiliesEvery = 4, kFamilyCalls = 8;  // samples; calls of one
constexpr double kMoreCodeOnDevice = 1e-6;  // that is loaded when it is called for the first time
constexpr double kWakeShort = 20e-6, kBatchesMost = 8;
constexpr int kWakeSamples = 9;
constexpr int kRedoneMost = 200;  // blocks in which a GPU was slowed down
// On a CPU more than a tick, at which the kernel counts what a process has worked.
constexpr double kLateOnCpu = 5e-3, kLateOnDevice = 1e-3;

// The candidate's answer was wrong, or its process ended: the row says so.
struct Ended {};

int cores() { return static_cast<int>(std::thread::hardware_concurrency()); }

}  // namespace

// One side in the race.
class Exam::Turn final : public Contender {
 public:
  Turn(Exam& exam, Sitter& sitter, int count, Way way = Way::usual)
      : exam_(exam), sitter_(sitter), way_(way), count_(count) {}

  // Calls on ordinary contents: who is quicker where an input is the same everywhere, or nothing,
  // is not faster where a model calls. What is made up has to be answered rightly in the judged
  // time as well, but its time does not count.
  std::optional<double> sample() override {
    // Between its two samples of a block, so that it has as many as the baseline for which its
    // caches are cold from the other's turn.
    const bool between = clocks_.claims_s.size() % kFamiliesEvery == 2;
    if (&sitter_ == &exam_.candidate_ && between && !exam_.all_cold_ && way_ == Way::usual) {
      const bool few = exam_.request_.device == "cpu";  // a device has a graph for as many as usual
      one(exam_.calls_of_ranks(few ? std::min(count_, kFamilyCalls) : count_), Way::usual, Of::all);
    }
    place(static_cast<int>(clocks_.claims_s.size()));
    exam_.throttling_.begin();
    const int calls = exam_.calls_of_ranks(count_);
    const auto call = one(calls, way_);
    clocks_.claims_s.push_back(call.claim_s * count_);
    clocks_.walls_s.push_back(call.wall_s + call.claim_s * (count_ - calls));
    waits_s_.push_back(call.waited_s);
    captured_ = call.captured && way_ != Way::eager;
    in_time_ += !call.late;
    if (call.facts) facts_ = call.facts;
    if (!exam_.throttling_.end()) return std::nullopt;
    return call.claim_s;
  }

  void forget() override {
    for (std::vector<double>* of : {&clocks_.claims_s, &clocks_.walls_s, &waits_s_})
      of->resize(of->size() - 2);
  }

  // On contents that may be called at any time.
  Sitter::Call one(int count, Way way = Way::usual, Of of = Of::ordinary) {
    const int first = exam_.some_first();
    return one(first, exam_.some_contents(first, count, of), way);
  }
  Sitter::Call one(int first, const std::vector<int>& contents, Way way = Way::usual) {
    ++exam_.poison_;
    std::vector<Look> looks;
    const auto call = exam_.take(sitter_, first, contents, looks, way, core_);
    const bool mine = &sitter_ == &exam_.candidate_;
    if (!call && mine) blame(exam_.row_, sitter_);
    if (!call && !mine) throw BaselineFailed{sitter_.why()};
    if (!call || (mine && !exam_.accept(looks, true))) throw Ended{};
    for (const Look& look : looks) {
      if (mine || look.ok) continue;
      // It was right before: not what kItIsWrong stands for.
      if (look.rule != "guard") throw BaselineFailed{"it is wrong in the race: " + look.text};
      // It was right on every set before, and a baseline's addresses do not depend on contents.
      exam_.blame_stray("around a tensor of a call that was not made: " + look.text);
      throw Ended{};
    }
    return *call;
  }

  void set_count(int count) { count_ = count; }
  // From here on. Cores are not equally fast for long, because others use what they share, and who
  // stays on one of them would be called faster for it. So both sides call on the same one, and on
  // all in turn.
  void place(int core) { core_ = core; }
  int calls() const { return count_; }
  bool captured() const { return captured_; }
  bool host_bound() const { return !clocks_.claims_s.empty() && in_time_ == 0; }
  double plan_s() const { return sitter_.plan_s; }
  void fill(SideTime& row) const {
    row.captured = captured_;
    if (!warm_s.empty()) row.warm_s = quantile(warm_s, 0.5);
    if (!facts_) return;
    row.launches = facts_->launches;
    if (facts_->kernel.empty() && !facts_->registers) return;
    row.kernel = facts_->kernel;
    row.registers = facts_->registers;
    row.local_bytes = facts_->local_bytes;
    row.shared_bytes = facts_->shared_bytes;
    row.occupancy = facts_->occupancy;
  }
  const ClockSamples& clocks() const { return clocks_; }
  bool had_to_wait() const { return cores_are_busy(clocks_, waits_s_); }
  Doubts doubts() const { return {clocks_, fresh, late, cold}; }
  FreshSamples fresh;
  LateSamples late;
  ColdSamples cold;
  AloneSamples alone;
  std::vector<double> warm_s;
  // Of one call, by the broker's clock, with `beside_s` for what is no call.
  double wall_s(double beside_s) const {
    return std::max(0.0, quantile(clocks_.walls_s, 0.5) - beside_s) / count_;
  }
  double beside_s() const {
    std::vector<double> all;
    for (size_t i = 0; i < clocks_.walls_s.size(); ++i)
      all.push_back(clocks_.walls_s[i] - clocks_.claims_s[i]);
    return quantile(all, 0.5);
  }

 private:
  Exam& exam_;
  Sitter& sitter_;
  const Way way_;
  int count_, core_ = 0;
  ClockSamples clocks_;
  std::vector<double> waits_s_;  // for a core, by sample
  bool captured_ = false;
  int in_time_ = 0;  // samples in which no device waited for its host
  std::optional<LaunchFacts> facts_;
};

// Rounds of calls on ordinary contents that nobody has called beside rounds on others.
void Exam::fresh_rounds(Turn& mine, Turn& theirs) {
  const int kept = static_cast<int>(families_.size()) - kept_;
  // Ranks wait for each other in microseconds, which many calls show; where they have to wait for
  // cores as well, it is some samples that take several times as long.
  const int rounds = std::min(request_.ranks > 1 ? kFreshRounds / 2 : kFreshRounds, kept);
  if (!rounds) return;
  const int count = std::clamp(kept / rounds, 1, std::min(sets_, mine.calls()));
  // Who knows that these are new may know what to claim. What is usual is no fault of theirs.
  // A device takes much longer in some samples to change from process to process than in others,
  // and these are few calls.
  const double messages =
      request_.device == "cpu" ? least_messages_s(theirs.clocks()) : messages_s(theirs.clocks());
  const double unseen = unseen_s(mine.clocks(), theirs.clocks());
  for (int round = 0; round < rounds; ++round) {
    std::vector<int> contents;
    for (int i = 0; i < count; ++i) contents.push_back(kept_ + round * count + i);
    for (Turn* turn : {&mine, &theirs}) {
      const int first = versions_ == 1 ? some_first() : contents[0] % sets_;
      turn->place(round);
      const double beside = messages + (turn == &mine ? unseen : 0);
      const auto keep = [&](FreshSamples::Times& times, const Sitter::Call& call) {
        times.claims_s.push_back(call.own_s * count);
        times.believed_s.push_back(call.believed_s(count, beside));
      };
      const auto again = [&] {
        for (int i = 0; i < (request_.ranks > 1 ? kSeenOfRanks : 1); ++i)
          keep(turn->fresh.seen, turn->one(count));
      };
      // Whose turn it is has cold caches at first.
      if (round % 2) again();
      keep(turn->fresh.fresh, turn->one(first, contents));
      if (round % 2 == 0) again();
    }
  }
  for (Turn* turn : {&mine, &theirs})
    turn->fresh.usual_s = quantile(turn->clocks().claims_s, 0.5) / turn->calls() * count;
}

// Work that began when the contents were there, and not when the call came, shows when the call
// comes late.
void Exam::late_rounds(Turn& mine, Turn& theirs) {
  // So long that a device could be done with all of them.
  late_s_ = request_.device == "cpu"
                ? kLateOnCpu
                : std::max(kLateOnDevice, quantile(theirs.clocks().claims_s, 0.5));
  for (int round = 0; round < kLateRounds; ++round)
    for (Turn* turn : {&mine, &theirs}) {
      turn->place(round);
      const auto call = turn->one(turn->calls(), Way::late);
      turn->late.late_s.push_back(call.claim_s * turn->calls());
      turn->late.early_s.push_back(call.early_s);
    }
  for (Turn* turn : {&mine, &theirs}) turn->late.usual_s = turn->clocks().claims_s;
}

// All contents of a sample lie there before its first call, whose code may have read, asked for or
// answered them all when the second one comes. Where there is no second one, that helps nobody. A
// device's own clock needs half as many.
void Exam::alone_rounds(Turn& mine, Turn& theirs) {
  if (mine.calls() == 1) return;
  Turn* const turns[] = {&theirs, &mine, &mine, &theirs};
  const int rounds = request_.device == "cpu" ? kAloneRounds : kAloneRounds / 2;
  for (int round = 0; round < rounds; ++round)
    for (Turn* turn : turns) {
      turn->place(round);
      turn->alone.alone_s.push_back(turn->one(1).claim_s);
    }
  for (Turn* turn : {&mine, &theirs})
    turn->alone.among_s = quantile(turn->clocks().claims_s, 0.5) / turn->calls();
}

// Calls on sets that the calls before were on, as many as stay in a core's caches. Their contents
// are new and their outputs poisoned, so that they have to be made as well; what is warm are
// weights, what is packed, code and, in the last cache, what was dealt. As believed, because who
// can tell such calls from others may claim what it likes; nothing follows from it.
void Exam::warm_rounds(Turn& mine, Turn& theirs) {
  constexpr double kOfCore = 1 << 20;
  const bool host = request_.device == "cpu";
  const int some = std::clamp(static_cast<int>(kOfCore / std::max(bytes_, 1.0)), 1, mine.calls());
  const int dealt = host ? some : 2, calls = host ? some : 1;
  const double beside = messages_s(theirs.clocks());
  flush_ = false;
  for (Turn* turn : {&mine, &theirs}) {
    turn->place(0);
    const int first = some_first();
    for (int round = 0; round <= kWarmRounds; ++round) {
      const auto call = turn->one(first, some_contents(first, dealt, Of::ordinary), Way::warm);
      const double all_s = host ? call.believed_s(calls, beside) : call.own_s;
      if (round > 0) turn->warm_s.push_back(all_s / calls);
    }
  }
  flush_ = true;
}

double Exam::copy_s(int calls) {
  if (request_.ranks > 1) return 0;
  return room_
      .ask("exam_copy", {{"exam", exam_->id}, {"calls", calls}, {"threads", request_.threads}})
      .at("seconds")
      .get<double>();
}

// A sample's flush takes the tensors and what is packed out of the caches. What a candidate has
// copied from them into memory of its own shows where that is cold as well, which takes too long to
// be done for everybody. Its own process does it. What is read once in a sample, whatever its
// calls, is more in a baseline's large plugin than in a small one, which would look faster for it;
// so the baseline has called once since. A candidate that did could fetch its copies.
Ratio Exam::cold_ratio(Sitter& baseline, int count) {
  all_cold_ = true;
  Turn mine(*this, candidate_, count), theirs(*this, baseline, count);
  RaceOptions options;
  options.seconds = std::max(kColdSeconds, seconds_ / 2);
  Contender* const contenders[] = {&theirs, &mine};
  const RaceResult result = fk::race(contenders, options);
  all_cold_ = false;
  return result.ratio(1, 0);
}

// The same by the oracle, which no candidate can hinder, with less precision: code is cold, too.
void Exam::cold_rounds(Turn& mine, Turn& theirs) {
  ClockSamples cold[2];
  std::vector<double> usual_s[2];
  Turn* const turns[] = {&mine, &theirs};
  for (int round = 0; round < kColdRounds; ++round) {
    for (size_t side = 0; side < 2; ++side) {
      turns[side]->place(round);
      const int count = turns[side]->calls();
      usual_s[side].push_back(turns[side]->one(count).own_s * count);
      const auto call = turns[side]->one(count, Way::cold);
      cold[side].claims_s.push_back(call.own_s * count);
      cold[side].walls_s.push_back(call.wall_s);
    }
  }
  // Messages, too, are read by code that is in no cache.
  const double messages[] = {least_messages_s(cold[1]) + unseen_s(mine.clocks(), theirs.clocks()),
                             least_messages_s(cold[1])};
  for (size_t side = 0; side < 2; ++side)
    for (size_t i = 0; i < usual_s[side].size(); ++i)
      turns[side]->cold.longer_s.push_back(
          std::max(cold[side].claims_s[i], cold[side].walls_s[i] - messages[side]) -
          usual_s[side][i]);
}

void Exam::race(Sitter& baseline) {
  flush_ = true;
  watch_ = GpuWatch::of(request_.device);
  ordinary_.assign(static_cast<size_t>(versions_), {});  // the first of each version is
  for (int i = 0; i < seen_; ++i)
    if (families_[static_cast<size_t>(i)] == "ordinary")
      ordinary_[static_cast<size_t>(i % versions_)].push_back(i);
  try {
    std::string evidence;
    // What looks like cheating is looked at twice: a busy machine does odd things once.
    for (int half = 0; half < 2; ++half) {
      renew_contents();
      Turn mine(*this, candidate_, 1), theirs(*this, baseline, 1);
      // In a longer sample what is believed of waking up is a smaller share.
      const double wake = half == 0 ? 0 : wake_s(candidate_) - wake_s(baseline);
      const double batch = kBatchSeconds * std::clamp(1 + wake / kWakeShort, 1.0, kBatchesMost);
      const int count = calls_of_a_sample(mine, theirs, batch);
      mine.set_count(count);
      theirs.set_count(count);
      RaceOptions options;
      options.seconds = half == 0 ? seconds_ : std::max(seconds_, kSecondLookSeconds);
      options.redo_max = kRedoneMost;
      throttling_ = Throttling(watch_.get());
      Contender* const contenders[] = {&theirs, &mine};
      const RaceResult result = fk::race(contenders, options);
      fresh_rounds(mine, theirs);
      // Who is slower by its own clock has gained nothing, whatever that clock leaves out (a
      // process of a hundred threads wakes up late); nor has anybody where times are not compared.
      const bool gains = result.ratio(1, 0).speed != Speed::slower && ranks_take_turns().empty();
      if (gains) late_rounds(mine, theirs);
      if (gains) alone_rounds(mine, theirs);
      // A device's own flush reads until nothing else is left.
      std::optional<Ratio> cold;
      if (gains && request_.device == "cpu") {
        cold_rounds(mine, theirs);
        cold = cold_ratio(baseline, count);
      }
      evidence = gains ? clock_disagreement(mine.clocks(), theirs.clocks(), wake) : "";
      if (gains && evidence.empty()) evidence = remembered_answers(mine.fresh, theirs.fresh);
      if (gains && evidence.empty()) evidence = early_work(mine.late, theirs.late);
      if (!evidence.empty() && half == 0) continue;
      warm_rounds(mine, theirs);
      conclude_race(mine, theirs, result, cold, evidence);
      eager_row(baseline, mine, theirs);
      if (evidence.empty()) break;
    }
  } catch (const Ended&) {
    // The row has the reason.
  } catch (const BaselineFailed&) {
    flush_ = all_cold_ = false;
    throw;
  }
  fill_families();
}

double Exam::wake_s(Sitter& sitter) {
  std::vector<double> all;
  RankGroup& runners = sitter.runners();
  for (int i = 0; i < kWakeSamples; ++i) {
    runners.freeze();
    room_.ask("exam_deal", {{"exam", exam_->id},
                            {"sets", Json::array()},
                            {"contents", Json::array()},
                            {"poison", false},
                            {"numbers_only", false},
                            {"flush", true}});
    const double since = now_seconds();
    runners.thaw();
    if (const auto call = sitter.run(exam_->id, 0, 0, since)) all.push_back(call->wall_s);
    if (runners.failed()) return 0;  // the next sample says why
  }
  runners.freeze();
  return quantile(all, 0.5);
}

// Ranks that knew which call is the last of a sample could talk once for all of them.
int Exam::calls_of_ranks(int most) {
  if (request_.ranks == 1) return most;
  return static_cast<int>(random_.integer((most + 1) / 2, most + 1));
}

// How many make it long enough, by the quicker side.
int Exam::calls_of_a_sample(Turn& mine, Turn& theirs, double seconds) {
  double quickest = seconds;
  const int looks = request_.device == "cpu" ? 2 : 1;  // a device's own clock is not late
  for (int i = 0; i < looks; ++i)
    for (Turn* turn : {&mine, &theirs})
      quickest = std::min(quickest, std::max(turn->one(1).claim_s, 1e-8));
  // One is left that is not called, to see whether somebody works ahead.
  return std::clamp(static_cast<int>(std::ceil(seconds / quickest)), 1, calls_most_);
}

// Each side has raced as it would run in a model; this is how long both take without a capture.
void Exam::eager_row(Sitter& baseline, const Turn& mine, const Turn& theirs) {
  if (request_.ranks > 1 || (!mine.captured() && !theirs.captured())) return;
  Turn its(*this, candidate_, mine.calls(), Way::eager);
  Turn other(*this, baseline, mine.calls(), Way::eager);
  RaceOptions options;
  options.blocks_min = options.blocks_max = 1;
  Contender* const contenders[] = {&other, &its};
  try {
    row_.timings.push_back(row_of(fk::race(contenders, options), its, other));
  } catch (const BaselineFailed&) {
  }  // the race is over
}

TimingRow Exam::row_of(const RaceResult& result, const Turn& mine, const Turn& theirs) const {
  TimingRow row;
  row.mode = mine.captured() ? "graph" : "eager";
  row.candidate.cold = result.timing(1);
  row.baseline.cold = result.timing(0);
  row.ratio = result.ratio(1, 0);
  row.calls_per_sample = mine.calls();
  row.settled = result.settled();
  row.host_bound = mine.host_bound() || theirs.host_bound();
  row.floor_s = floor_s_;
  row.bytes = bytes_;
  row.flops = flops_;
  row.wire = wire_;
  row.candidate.roofline = roofline_s_ / row.candidate.cold.median_s;
  row.baseline.roofline = roofline_s_ / row.baseline.cold.median_s;
  mine.fill(row.candidate);
  theirs.fill(row.baseline);
  return row;
}

void Exam::conclude_race(const Turn& mine, const Turn& theirs, const RaceResult& result,
                         const std::optional<Ratio>& cold, const std::string& evidence) {
  TimingRow row = row_of(result, mine, theirs);
  if (plan_) {
    row.candidate.plan_s = mine.plan_s();
    row.baseline.plan_s = theirs.plan_s();
  }
  const double beside = theirs.beside_s();
  row.candidate.clock_s = mine.wall_s(beside);
  row.baseline.clock_s = theirs.wall_s(beside);
  const bool warm = cold && cold->blocks > 1 && cold->high < row.ratio.low;
  if (warm) row.ratio = *cold;
  // Who is faster is so there as well.
  const bool unsure = !warm && cold && row.ratio.speed == Speed::faster && cold->low < 1;
  if (unsure) row.ratio.low = std::min(row.ratio.low, cold->low);
  if (unsure) row.ratio.speed = speed_of(row.ratio.low, row.ratio.high, RaceOptions().band);
  Ratio doubted = row.ratio;
  std::string doubt = take_doubt_off(doubted, mine.doubts(), theirs.doubts(),
                                     result.timing(1).median_s * mine.calls());
  if (request_.device == "cpu") {
    row.ratio = doubted;
  } else if (!doubt.empty()) {
    // Calls on a GPU are short beside what waking up a process differs by. So what speaks against
    // it counts, but says nothing about how fast it is.
    row.ratio.low = doubted.low;
    row.ratio.speed = speed_of(row.ratio.low, row.ratio.high, RaceOptions().band);
  }
  if (warm && doubt.empty()) doubt = "this is with all memory of both processes cold";
  if (unsure && doubt.empty())
    doubt = "with all memory of both processes cold it may not be faster";
  const double allowed = request_.device == "cpu" ? 0 : kMoreCodeOnDevice;
  const std::string ahead = doubt_work_ahead(row.ratio, mine.alone, theirs.alone, allowed);
  if (!ahead.empty()) doubt = ahead;
  const bool busy = request_.device == "cpu" && request_.ranks > 1 && theirs.had_to_wait() &&
                    row.ratio.speed == Speed::faster;
  if (busy) doubt_faster(row.ratio);
  // Who fails because a candidate has taken what it needs is not beaten.
  const auto failed = std::find_if(row_.passed_over.begin(), row_.passed_over.end(),
                                   [](const auto& p) { return !starts_with(p.why, kItIsWrong); });
  const bool unbeaten = failed != row_.passed_over.end() && row.ratio.speed == Speed::faster;
  if (unbeaten) doubt_faster(row.ratio);
  if (unbeaten) doubt = "the baseline " + failed->name + " failed and might have been quicker";
  const std::string slowed = throttling_.why();
  if (!slowed.empty()) doubt_of_slowed_device(row.ratio);
  const double copy = copy_s(mine.calls());
  for (SideTime* side : {&row.candidate, &row.baseline})
    if (copy > 0 && side->cold.median_s > 0) side->of_copy = copy / side->cold.median_s;
  if (watch_) row.clocks = watch_->seen();
  row_.status = status_of(row.ratio.speed);
  row_.why = !busy ? doubt : "the baseline's ranks had to wait for cores that others use as well";
  if (!slowed.empty()) row_.why = slowed;
  if (row_.why.empty() && is_oracle(row_.baseline))
    row_.why = "beside the oracle, which is exact and slow: " +
               std::string(row_.passed_over.empty() ? "no other baseline takes the case"
                                                    : "the other baselines failed");
  row_.timings.push_back(row);
  if (!evidence.empty()) {
    row_.status = Status::cheating;
    row_.why = "its time is not the time of the work";
    row_.evidence = evidence;
  } else if (row.candidate.cold.median_s < floor_s_) {
    row_.status = Status::impossible;
    row_.why = human_duration(row.candidate.cold.median_s) + " a call; the device needs " +
               human_duration(floor_s_) + " for its bytes and operations";
  } else if (const std::string why = ranks_take_turns(); !why.empty()) {
    row_.status = Status::correct;
    row_.why = "its time is not compared: " + why;
    row_.next = std::string("Judge it where every rank has a ") +
                (request_.device == "cpu" ? "core" : "GPU") + " of its own.";
  } else if (!slowed.empty() && row_.status == Status::cannot_tell) {
    row_.next = "Judge it when the device is cool and has its power for itself.";
  }
}

// Of ranks that have to wait for a core or a GPU, the time is the scheduler's.
std::string Exam::ranks_take_turns() const {
  if (request_.ranks == 1) return "";
  const std::string ranks = std::to_string(request_.ranks) + " ranks take turns on ";
  if (request_.device != "cpu") return own_devices_ ? "" : ranks + "fewer GPUs";
  return request_.ranks > cores() ? ranks + std::to_string(cores()) + " cores" : "";
}

}  // namespace fk
