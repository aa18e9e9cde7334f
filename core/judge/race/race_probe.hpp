// SPDX-License-Identifier: Apache-2.0
// An extra measurement of a race, against one way to gain unfairly. A probe finds evidence of
// cheating, or takes a penalty off the ratio. Each file of race/probes has one, and registers it.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/judge/race/timing_penalty.hpp"
#include "core/judge/verdict/verdict.hpp"

namespace fk {

class CaseRace;

// A probe's reason for its penalty, and the next step for the author. Empty: no penalty.
struct ProbeFinding {
  std::string why, next;
};
inline constexpr const char* kIdle = "Judge it on an idle machine.";  // a next step

// For one race.
class RaceProbe {
 public:
  virtual ~RaceProbe() = default;
  // Makes calls of both sides, after the race.
  virtual void measure(CaseRace&) {}
  // Evidence of cheating; empty: none. Only a candidate that gains by its times is asked.
  virtual std::string evidence(const CaseRace&) const { return ""; }
  // Time that the candidate did not claim. The clock probe adds up the time of all probes.
  virtual ExtraTime extra(const CaseRace&) const { return {}; }
  // Fills fields of the row that have no effect on the verdict. May make calls.
  virtual void fill(CaseRace&, TimingRow&) {}
  // Lowers row.ratio. Returns the reason where the answer changes. `why`: the reason so far, which
  // a later one replaces.
  virtual ProbeFinding penalise(const CaseRace&, TimingRow&, const std::string& /*why*/) const {
    return {};
  }
};

// Probes measure in one order, and conclude in another. Later calls find other memory warm. A later
// penalty sees the ratio that the earlier ones leave.
struct ProbeOrder {
  int measures = 0, concludes = 0;
};

// Probes for one race, in the order of their measurements.
struct RegisteredProbe {
  std::string name;
  ProbeOrder order;
  std::unique_ptr<RaceProbe> probe;
};
std::vector<RegisteredProbe> race_probes();

struct RaceProbeRegistration {
  RaceProbeRegistration(const char* name, ProbeOrder order, std::unique_ptr<RaceProbe> (*make)());
};

}  // namespace fk

// At file scope: FK_RACE_PROBE(fresh, FreshProbe, {.measures = 10, .concludes = 30});
#define FK_RACE_PROBE(name, type, ...)                      \
  static const ::fk::RaceProbeRegistration fk_probe_##name( \
      #name, __VA_ARGS__,                                   \
      []() -> std::unique_ptr<::fk::RaceProbe> { return std::make_unique<type>(); })
