// SPDX-License-Identifier: Apache-2.0
// Whether what a runner claims about time fits what the broker's clock saw, and whether calls on
// contents that were seen before are suspiciously fast.
#pragma once
#include <string>
#include <vector>

#include "core/measure/race_clock.hpp"

namespace fk {

// Per sample, of one side.
struct ClockSamples {
  std::vector<double> claims_s;  // of all calls of the sample together, by the runner's clock
  std::vector<double> walls_s;   // of the whole request, by the broker's
  int calls = 1;                 // of a sample
};

// What a claim of seconds for a call counts for: a sample without a time would not be in the ratio,
// and who chooses that chooses samples.
double counted_s(double claim_s);

// What a request takes beside its calls (messages, waking up) must be the same for both sides.
// Empty, or the evidence that the candidate's clock is slow: the difference of the clocks is larger
// than the baseline's by more than its own scatter and a twentieth of the calls' time.
// `wake_s`: by how much longer the candidate's process takes to answer a request without calls,
// which a process of many threads does honestly. No more than kWakeMost of it is believed, because
// who wants to hide work can take its time there too.
constexpr double kWakeMost = 60e-6;
std::string clock_disagreement(const ClockSamples& candidate, const ClockSamples& baseline,
                               double wake_s = 0);

// What of the broker's clock is messages: what it sees beyond the baseline's claims in the quieter
// quarter of the samples, for who takes the shortest of several; or in all but a quarter.
double least_messages_s(const ClockSamples& baseline);
double messages_s(const ClockSamples& baseline);
// By how much more the broker's clock usually sees of the candidate; its claims or its threads.
double unseen_s(const ClockSamples& candidate, const ClockSamples& baseline);

// Seconds of all calls of a sample, in turns: by the runner's clock, and as believed, by the
// broker's where that says more.
struct FreshSamples {
  struct Times {
    std::vector<double> claims_s, believed_s;
  };
  Times fresh;         // on contents that were never called before
  Times seen;          // on as many others
  double usual_s = 0;  // of as many in the race, before all of these; 0: unknown
};
// Empty, or the evidence that answers are remembered: every sample on fresh contents takes more
// than each of the others where these are many, than 1.25 times their upper quartile (1.5 times
// with fewer than four) and some microseconds more, and the baseline's do not.
std::string remembered_answers(const FreshSamples& candidate, const FreshSamples& baseline);

// Seconds of all calls of a sample, and of one in which some time passed between the contents and
// the calls; and what all threads together worked in that time, by the kernel's count.
struct LateSamples {
  std::vector<double> usual_s, late_s, early_s;
};
// Empty, or the evidence that the work begins before the clock: every late sample takes less than
// two thirds of what is short for the others, and the baseline's do not.
std::string early_work(const LateSamples& candidate, const LateSamples& baseline);

// By how many seconds the calls of a sample took longer than those of the sample just before it,
// because everything was flushed from all caches.
struct ColdSamples {
  std::vector<double> longer_s;
};

// A short race of a candidate whose memory is cold. A busy machine is quicker for one side now and
// then, so who is faster or seems to be (the interval does not begin below 1) races again, three
// times in all, and the race that says least for it counts.
Ratio race_while_faster(Contender& candidate, Contender& baseline, const RaceOptions& options);

// Seconds of calls that are alone in their sample, and of a call among `calls` in a usual one.
struct AloneSamples {
  std::vector<double> alone_s;
  double among_s = 0;
};
// By how much more a call of the candidate takes when it is alone than the baseline's does, beyond
// `allowed_s`: what calls do for those that come next in their sample, whose inputs lie there
// already. Where a model calls, they do not.
double ahead_s(const AloneSamples& candidate, const AloneSamples& baseline, double allowed_s);
// Who is faster has to be so with that. Who only has more code, which is colder then, is not to be
// told that it is slower, so the lower end of the interval alone changes. The result says why, or
// is empty when nothing changes.
std::string penalise_work_ahead(Ratio& ratio, const AloneSamples& candidate,
                                const AloneSamples& baseline, double allowed_s);

// How long the first thread of a process has waited for a core since it began, in seconds, as the
// kernel counts it; 0 where it does not.
double waited_for_core_s(int pid);
// Whether ranks of the baseline, which have a core each, had to share them with others: in more
// than a quarter of its samples one of them waited for longer than half of the calls took.
// `waited_s`: the longest wait of a rank in each sample of `baseline`.
bool cores_are_busy(const ClockSamples& baseline, const std::vector<double>& waited_s);
// Then the times are the scheduler's in part, which no number of samples averages away: `faster`
// becomes `cannot tell`. `slower` stays, or who makes a machine busy would not be told.
void penalise_faster(Ratio& ratio);
// The GPU was slowed down throughout the race (gpu_telemetry.hpp), and its clocks may have favoured
// one side. `slower` stays: else a candidate could escape it by a large use of power.
void penalise_slowed_device(Ratio& ratio);
// Of ranks with a GPU each, `call_s` a call: one set of processes is quicker than another, alike in
// all short calls and blocks; why is not known. A race has one set of each side, so its interval
// does not hold that. True where the answer changes for it.
bool penalise_one_set(Ratio& ratio, double call_s);

// What a claim leaves out may be little and yet make `faster` out of `same`. So a candidate that is
// faster by its own clock has to be so with everything added that speaks against it: what the
// broker's clock sees beyond the claim and beyond the baseline's difference, what its threads work
// between the contents and a call, what its calls take longer than the baseline's do when nothing
// lies in any cache, and what contents that nobody has seen take longer, beside others and beside
// the race. Claims may be
// wrong in some samples only, where what is usual shows nothing. So where samples of both sides
// that are as long as the broker's clock says, messages_s() taken off, contradict that, they count.
// Where all this changes the answer, or is more than a twentieth, `ratio` becomes the penalised
// one; the result says why, or is empty. `calls_s`: the candidate's median of all calls of a
// sample.
struct TimingPenalties {
  const ClockSamples& clocks;
  const FreshSamples& fresh;
  const LateSamples& late;
  const ColdSamples& cold;
};
std::string take_penalty_off(Ratio& ratio, const TimingPenalties& candidate,
                             const TimingPenalties& baseline, double calls_s);

}  // namespace fk
