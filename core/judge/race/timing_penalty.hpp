// SPDX-License-Identifier: Apache-2.0
// Compares a worker's claims about time with the controller's clock, and calls on new contents with
// calls on seen ones.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/measure/race_clock.hpp"

namespace fk {

// Seconds per sample of one side.
struct ClockSamples {
  std::vector<double> claims_s;  // all calls of the sample, by the worker's clock
  std::vector<double> walls_s;   // the whole request, by the controller's clock
  int calls = 1;                 // per sample
};

// The claim in seconds that counts. Every sample counts, even with a claim of 0: otherwise a
// candidate could choose its samples.
double counted_s(double claim_s);

// A request's time outside of its calls (messages, wake-up) must be equal for both sides. Returns
// evidence of a slow clock of the candidate, or empty. Evidence: the difference of its clocks
// exceeds the baseline's by more than the baseline's scatter and 5 % of the calls' time. `wake_s`:
// extra seconds of the candidate's process for a request without calls; many threads take longer
// honestly. At most kWakeMost of it is believed, because a process can also take this time on
// purpose.
constexpr double kWakeMost = 60e-6;
std::string clock_disagreement(const ClockSamples& candidate, const ClockSamples& baseline,
                               double wake_s = 0);

// Seconds of messages: the controller's clock less the baseline's claims. least_messages_s() takes
// the lower quartile, for comparisons with a shortest sample. messages_s() takes the upper
// quartile.
double least_messages_s(const ClockSamples& baseline);
double messages_s(const ClockSamples& baseline);
// Extra seconds that the controller's clock usually sees for the candidate: false claims or
// threads.
double unseen_s(const ClockSamples& candidate, const ClockSamples& baseline);

// Seconds of all calls of a sample, in turns. claims_s: by the worker's clock. believed_s: by the
// controller's clock where that is more.
struct FreshSamples {
  struct Times {
    std::vector<double> claims_s, believed_s;
  };
  Times fresh;         // on contents that were never called before
  Times seen;          // on as many seen contents
  double usual_s = 0;  // as many calls in the race, before all of these; 0: unknown
};
// Returns evidence of remembered answers, or empty. Evidence: with many samples, each one on fresh
// contents takes longer than each seen one. Each also takes longer than 1.25 times the seen ones'
// upper quartile (1.5 times with fewer than four samples), and some microseconds more. The baseline
// shows none of this.
std::string remembered_answers(const FreshSamples& candidate, const FreshSamples& baseline);

// usual_s: seconds of all calls of a sample. late_s: the same with a pause between contents and
// calls. early_s: work of all threads in the pause, as the kernel counts it.
struct LateSamples {
  std::vector<double> usual_s, late_s, early_s;
};
// Returns evidence of work before the clock, or empty. Evidence: each late sample takes less than
// two thirds of a short usual one, and the baseline's do not.
std::string early_work(const LateSamples& candidate, const LateSamples& baseline);

// Extra seconds of a sample's calls after a flush of all caches, beyond those of the sample before
// it.
struct ColdSamples {
  std::vector<double> longer_s;
};

// A short race of a candidate with cold memory. A busy machine favours one side at times. So while
// the candidate seems faster (the interval begins at 1 or above), it races again, up to three
// times. The race with the worst result for it counts.
Ratio race_while_faster(Contender& candidate, Contender& baseline, const RaceOptions& options);

// Races with cold memory. `worst`: of race_while_faster(). `again`: one more race, where `worst`
// contradicts the usual race; the worst of several races is too bad by chance.
struct ColdRaces {
  Ratio worst;
  std::optional<Ratio> again;
  bool busy = false;  // other programs used the cores
};
// True when the race's interval is one of confidence, and lies below the usual race's.
bool contradicts(const Ratio& cold, const Ratio& usual);
// The samples of the usual race may be warm. Where both cold races contradict it on free cores, the
// milder of them becomes the ratio. Else a contradiction lowers the interval, and so does a speedup
// that is not certain with cold memory. Returns the reason; empty: no change.
std::string penalise_cold(Ratio& ratio, const ColdRaces& cold);

// Seconds of calls that are alone in their sample, and of one call among others in a usual sample.
struct AloneSamples {
  std::vector<double> alone_s;
  double among_s = 0;
};
// Extra seconds of the candidate's call when it is alone, beyond the baseline's extra and
// `allowed_s`. In a sample, a call can do work for the next ones, whose inputs are there. A model
// gives no such chance.
double ahead_s(const AloneSamples& candidate, const AloneSamples& baseline, double allowed_s);
// A faster candidate must stay faster with ahead_s() added. Only the lower end of the interval
// changes, because honest code may be larger, and so colder when alone. Returns the reason; empty:
// no change.
std::string penalise_work_ahead(Ratio& ratio, const AloneSamples& candidate,
                                const AloneSamples& baseline, double allowed_s);

// Seconds that a process's first thread has waited for a core since it began, as the kernel counts
// them; 0 where it does not count.
double waited_for_core_s(int pid);
// True when the baseline's ranks had to share their cores. Then a rank waited longer than half of
// the calls' time in more than a quarter of its samples. `waited_s`: the longest wait of a rank, by
// sample of `baseline`.
bool cores_are_busy(const ClockSamples& baseline, const std::vector<double>& waited_s);
// Use when cores are busy: the scheduler's share of the times does not average away. `faster`
// becomes `cannot tell`. `slower` stays, or a candidate could hide it by making the machine busy.
void penalise_faster(Ratio& ratio);
// Use when cores are busy: probes then measure the scheduler too. A ratio that is slower by
// penalties alone becomes `cannot tell`; `raced`: the ratio before them. True when it changes.
bool forgive_slower(Ratio& ratio, const Ratio& raced);
// Use when the GPU was slowed down throughout the race (gpu_telemetry.hpp): its clocks may favour
// one side. `slower` stays, or a candidate could hide it by a large use of power.
void penalise_slowed_device(Ratio& ratio);
// For ranks with a GPU each and calls of `call_s` seconds. One set of processes is faster than
// another in all short calls, for an unknown reason. A race has one set per side, so its interval
// lacks this spread. True when the answer changes.
bool penalise_one_set(Ratio& ratio, double call_s);

// Time of the candidate beyond its claims, as a probe measured it.
struct ExtraTime {
  double seconds = 0;  // of a sample's calls
  double factor = 1;   // of the time of all calls
  std::string what;    // "20 us of work by its threads before a late call"; empty: no extra time
};
// Extra time of new contents, compared with others and with the race.
ExtraTime extra_of_fresh(const FreshSamples& candidate, const FreshSamples& baseline);
// Work of its threads between the contents and a call.
ExtraTime extra_of_late(const LateSamples& candidate, const LateSamples& baseline);
// Extra time of its calls with cold caches, beyond the baseline's.
ExtraTime extra_of_cold(const ColdSamples& candidate, const ColdSamples& baseline);

// A small omission in a claim can make `faster` out of `same`. So a candidate that is faster by its
// own clock must stay faster with `extras` added. The controller's clock beyond the claim is added
// too, less the baseline's difference.
// Claims may be wrong in some samples only, and the usual figures do not show that. So samples by
// the controller's clock, less messages_s(), count where they contradict the claims. `ratio`
// becomes the penalised one where the answer changes, or where the penalty exceeds 5 %. Returns the
// reason; empty: no change. `calls_s`: the candidate's median seconds of all calls of a sample.
std::string take_penalty_off(Ratio& ratio, const ClockSamples& candidate,
                             const ClockSamples& baseline, const std::vector<ExtraTime>& extras,
                             double calls_s);

// The controller's clock sees a false claim only as far as the time of messages is steady. On a
// busy machine this time varies by milliseconds, and hides a claim of a third. So a faster
// candidate must stay faster with the largest time that the difference of the clocks may hide. Only
// the lower end of the interval changes. Returns the reason; empty: no change.
std::string penalise_unsteady_clock(Ratio& ratio, const ClockSamples& candidate,
                                    const ClockSamples& baseline, double calls_s);

}  // namespace fk
