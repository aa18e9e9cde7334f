// SPDX-License-Identifier: Apache-2.0
#include "core/judge/race/race_probe.hpp"

#include <algorithm>

namespace fk {

namespace {

struct KnownProbe {
  std::string name;
  ProbeOrder order;
  std::unique_ptr<RaceProbe> (*make)() = nullptr;
};

std::vector<KnownProbe>& known_probes() {
  static std::vector<KnownProbe> list;
  return list;
}

}  // namespace

RaceProbeRegistration::RaceProbeRegistration(const char* name, ProbeOrder order,
                                             std::unique_ptr<RaceProbe> (*make)()) {
  known_probes().push_back({name, order, make});
}

std::vector<RegisteredProbe> race_probes() {
  std::vector<RegisteredProbe> out;
  for (const KnownProbe& known : known_probes())
    out.push_back({known.name, known.order, known.make()});
  std::sort(out.begin(), out.end(), [](const RegisteredProbe& a, const RegisteredProbe& b) {
    return a.order.measures < b.order.measures;
  });
  return out;
}

}  // namespace fk
