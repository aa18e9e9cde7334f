// SPDX-License-Identifier: Apache-2.0
#include "core/scenario/workload_result.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include "core/base/clock.hpp"
#include "core/measure/race_clock.hpp"

namespace fk {

namespace {

constexpr int64_t kThroughputPairs = 4, kThroughputPairsFew = 2, kPairsLeast = 2;
constexpr size_t kKeptOfRound = 2;

void keep(const RequestResult& r, Round& some) {
  const uint64_t id = some.requests.size() + 1;
  RequestResult& kept = some.requests[id] = r;
  kept.request.id = id;
}

// Keeps the request that is furthest from the baseline's answer. A random sample would miss a
// candidate with one or two wrong answers.
void keep_furthest(const Round& round, const Round& baseline, Round& some) {
  RequestResult furthest;
  for (const auto& [id, r] : round.requests) {
    const auto theirs = baseline.requests.find(id);
    const double now = theirs == baseline.requests.end() ? 0 : apart(r, theirs->second);
    if (now <= furthest.apart) continue;
    furthest = r;
    furthest.apart = now;
  }
  if (furthest.apart > 0) keep(furthest, some);
}

void keep_some(const Round& round, Round& some) {
  std::vector<const RequestResult*> all;
  for (const auto& [id, r] : round.requests) all.push_back(&r);
  std::shuffle(all.begin(), all.end(), std::random_device{});
  all.resize(std::min(all.size(), kKeptOfRound));
  for (const RequestResult* r : all) keep(*r, some);
}

RecordedAnswers recorded_answers(const Round& round, const Load& load) {
  RecordedAnswers out;
  for (const auto& [id, r] : round.requests) {
    const auto* answer = load.answer(static_cast<int64_t>(id) - 1);
    if (!answer) continue;
    ++out.of;
    out.equal += r.tokens == *answer;
  }
  return out;
}

class TimedRounds {
 public:
  TimedRounds(Side& baseline, Side* candidate, const TimedContext& context, TimedPair& timed)
      : baseline_(baseline), candidate_(candidate), context_(context), timed_(timed) {}

  bool run() {
    const Workload& w = context_.workload;
    const int64_t warmup = w.warmup, rounds = warmup + context_.pairs;
    const double start = now_seconds(), spent_before = timed_.spent_s;
    const size_t own_before = timed_.baseline.samples.total_s.size(),
                 its_before = timed_.candidate.samples.total_s.size();
    // Each process has its share of the time, and measures at least one pair.
    const double share_s = context_.time_limit_s * (context_.process + 1) / context_.processes;
    bool good = true;
    for (int64_t i = 0; i < rounds && good; ++i) {
      const bool measured = i >= warmup;
      if (i > warmup && context_.time_limit_s > 0 && timed_.spent_s > share_s) break;
      label_ = "round (" + std::to_string(i + 1) + " of " + std::to_string(rounds) + ")" +
               (context_.processes > 1 ? ", process " + std::to_string(context_.process + 1) +
                                             " of " + std::to_string(context_.processes)
                                       : "");
      // Each process gets other requests.
      as_recorded_ = context_.process * rounds + i == 0 && w.load->is_recorded();
      const auto requests = make_requests(w, context_.scenario.engine->form(), context_.seed,
                                          context_.process * rounds + i);
      good = pair(requests, measured, (i - warmup + context_.process) % 2 != 0);
      if (good && candidate_ && measured)
        keep_furthest(timed_.candidate.last, timed_.baseline.last, timed_.candidate.some);
      timed_.spent_s = spent_before + now_seconds() - start;
    }
    end_process(timed_.baseline, own_before);
    end_process(timed_.candidate, its_before);
    return good || baseline_.is_open();
  }

 private:
  bool pair(const std::vector<Request>& requests, bool measured, bool candidate_first) {
    if (!candidate_) return round(baseline_, timed_.baseline, requests, measured, 0);
    // The first pair must start with the baseline, which gives the candidate's time limit.
    const bool swap = candidate_first && timed_.slowest_s > 0;
    const auto own = [&] { return round(baseline_, timed_.baseline, requests, measured, 0); };
    const auto its = [&] {
      return round(*candidate_, timed_.candidate, requests, measured,
                   candidate_limit(timed_.slowest_s));
    };
    if (!(swap ? its() && own() : own() && its())) return false;
    if (measured)
      timed_.pairs.push_back({context_.process, timed_.baseline.samples.total_s.back(),
                              timed_.candidate.samples.total_s.back()});
    return true;
  }

  static void end_process(TimedSide& side, size_t before) {
    const auto& all = side.samples.total_s;
    if (all.size() == before) return;
    side.by_process_s.push_back(
        quantile({all.begin() + static_cast<std::ptrdiff_t>(before), all.end()}, 0.5));
  }

  bool round(Side& side, TimedSide& timed, const std::vector<Request>& requests, bool measured,
             double limit_s) {
    RoundOptions options;
    options.vocab_size = context_.scenario.engine->form().vocabulary;
    options.time_limit_s = limit_s;
    if (context_.progress)
      options.progress = [this](const std::string& text) {
        context_.progress(label_ + ": " + text);
      };
    const Load& load = *context_.workload.load;
    if (context_.workload.at_their_times)
      for (int64_t i = 0; i < load.requests(); ++i) options.arrives_s.push_back(load.arrives_s(i));
    Round result;
    if (!side.drive(requests, options, result) ||
        (&side == candidate_ && side.works_on(baseline_))) {
      timed.why = side.why();
      timed.violation = side.verdict() == "violation";
      return false;
    }
    if (&side == &baseline_)
      timed_.slowest_s = std::max(timed_.slowest_s, result.end_s - result.start_s);
    if (as_recorded_)
      if (const auto found = recorded_answers(result, load); found.of > 0)
        timed.as_recorded = found;
    if (measured) {
      timed.samples.add(result, context_.workload.together);
      keep_some(result, timed.some);
    }
    timed.last = std::move(result);
    return true;
  }

  Side& baseline_;
  Side* candidate_;
  const TimedContext& context_;
  TimedPair& timed_;
  std::string label_;
  bool as_recorded_ = false;  // this round
};

}  // namespace

double candidate_limit(double baseline_s) {
  constexpr double kLeast = 30, kFactor = 20;
  return std::max(kLeast, kFactor * baseline_s);
}

int64_t pairs_of_process(const Workload& w, int processes, bool judged) {
  const int64_t all = w.iterations > 0 ? w.iterations
                      : judged         ? kThroughputPairs
                                       : kThroughputPairsFew;
  if (processes == 1) return all;
  return std::max(kPairsLeast, (all + processes - 1) / processes);
}

bool time_pair(Side& baseline, Side& candidate, const TimedContext& context, TimedPair& timed) {
  return TimedRounds(baseline, &candidate, context, timed).run();
}

bool time_alone(Side& baseline, const TimedContext& context, TimedPair& timed) {
  return TimedRounds(baseline, nullptr, context, timed).run();
}

WorkloadRow workload_row(const TimedSide& side, const Workload& workload) {
  WorkloadRow row;
  row.workload = workload.name;
  row.kind = workload.kind;
  row.why = side.why;
  row.rounds = static_cast<int64_t>(side.samples.total_s.size());
  row.done = side.why.empty() && row.rounds > 0;
  row.requests = workload.load->requests();
  row.prompt_tokens = workload.load->prompt_tokens();
  row.output_tokens = workload.load->output_tokens();
  row.total_s = figure_of(side.samples.total_s);
  row.by_process_s = side.by_process_s;
  row.prefill_tokens_s = figure_of(side.samples.prefill_tokens_s);
  row.decode_tokens_s = figure_of(side.samples.decode_tokens_s);
  row.first_token_s = figure_of(side.samples.first_token_s);
  row.token_s = figure_of(side.samples.token_s);
  row.as_recorded = side.as_recorded;
  return row;
}

double apart(const RequestResult& a, const RequestResult& b) {
  const auto [x, y] =
      std::mismatch(a.tokens.begin(), a.tokens.end(), b.tokens.begin(), b.tokens.end());
  double most = x == a.tokens.end() && y == b.tokens.end()
                    ? 0
                    : 1 / static_cast<double>(1 + (x - a.tokens.begin()));
  for (size_t t = 0; t < std::min(a.tensors.size(), b.tensors.size()); ++t) {
    const auto &mine = a.tensors[t].values, &theirs = b.tensors[t].values;
    double difference = 0, largest = 0;
    for (size_t i = 0; i < std::min(mine.size(), theirs.size()); ++i) {
      const double error = std::abs(static_cast<double>(mine[i]) - static_cast<double>(theirs[i]));
      difference = std::isfinite(error) ? std::max(difference, error) : HUGE_VAL;
      largest = std::max(largest, std::abs(static_cast<double>(theirs[i])));
    }
    if (difference > 0) most = std::max(most, std::min(1.0, difference / largest));
  }
  return most;
}

double same_tokens(const Round& a, const Round& b) {
  int64_t count = 0, same = 0;
  for (const auto& [id, r] : a.requests) {
    const auto it = b.requests.find(id);
    if (it == b.requests.end()) continue;
    for (size_t i = 0; i < std::min(r.tokens.size(), it->second.tokens.size()); ++i) {
      ++count;
      same += r.tokens[i] == it->second.tokens[i];
    }
  }
  return count ? static_cast<double>(same) / static_cast<double>(count) : 0;
}

}  // namespace fk
