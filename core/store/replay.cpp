// SPDX-License-Identifier: Apache-2.0
// Compares two verdicts case by case, and decides which differences matter (replay.hpp).
#include "core/store/replay.hpp"

#include <algorithm>
#include <cstdio>
#include <map>

namespace fk {

namespace {

std::string interval(const Ratio& r) {
  char text[96];
  std::snprintf(text, sizeof text, "%.4g (%.4g-%.4g)", r.value, r.low, r.high);
  return r.value > 0 ? text : "not timed";
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

// True if the two intervals overlap. A much wider old interval is narrowed to the new width around
// its middle, because an interval that holds everything would overlap with any other.
bool overlap(Ratio was, const Ratio& now) {
  constexpr double kLeast = 1.1;
  if (was.speed == Speed::faster || was.speed == Speed::slower) {
    const double width = now.high / now.low, most = std::max(kLeast, width * width);
    was.low = std::max(was.low, was.value / most);
    was.high = std::min(was.high, was.value * most);
  }
  return was.low <= now.high && now.low <= was.high;
}

bool opposite(Status a, Status b) {
  const auto either = [&](Status x, Status y) { return a == x && b == y; };
  return either(Status::faster, Status::slower) || either(Status::slower, Status::faster);
}

// Faster, same and slower follow from the interval, which is compared separately: they count as a
// change only if they are opposite.
bool changed(Status was, Status now) {
  return !is_right(was) || !is_right(now) || opposite(was, now);
}

const Ratio* ratio_of(const CaseVerdict& c) {
  return c.timings.empty() || !(c.timings.front().ratio.value > 0) ? nullptr
                                                                   : &c.timings.front().ratio;
}

std::string name_of_case(const CaseVerdict& c) {
  return c.op + ", case " + c.case_name + (c.beside ? " of " + c.size + " cases" : "") +
         (c.variant.empty() ? "" : ", " + c.variant) + (c.routing.empty() ? "" : ", " + c.routing);
}

class Comparison {
 public:
  std::vector<Deviation> found;

  void note(const std::string& what, const std::string& was, const std::string& now, bool matters) {
    if (was != now) found.push_back({what, was, now, matters});
  }

  void compare(const CaseVerdict& was, const CaseVerdict& now) {
    const std::string name = name_of_case(was);
    note(name + ": status", name_of(was.status), name_of(now.status),
         changed(was.status, now.status));
    note(name + ": rule", was.rule, now.rule, true);
    if (was.errors && now.errors) {
      note(name + ": first wrong element", std::to_string(was.errors->first_bad),
           std::to_string(now.errors->first_bad), false);
      // Timed calls use the same seeds, but their number depends on noise.
      note(name + ": largest error of allowed", number(was.errors->worst),
           number(now.errors->worst), false);
    }
    speed(name, ratio_of(was), ratio_of(now));
  }

  void speed(const std::string& name, const Ratio* was, const Ratio* now) {
    if (!was && !now) return;
    const std::string before = was ? interval(*was) : "not timed",
                      after = now ? interval(*now) : "not timed";
    note(name + ": times the baseline", before, after, !was || !now || !overlap(*was, *now));
  }
};

}  // namespace

std::vector<Deviation> key_differences(const VerdictKey& was, const VerdictKey& now) {
  std::map<std::string, std::pair<std::string, std::string>> all;
  for (const auto& [name, value] : was.parts) all[name].first = value;
  for (const auto& [name, value] : now.parts) all[name].second = value;
  std::vector<Deviation> out;
  for (const auto& [name, values] : all)
    if (values.first != values.second)
      out.push_back({name, values.first.empty() ? "absent" : values.first,
                     values.second.empty() ? "absent" : values.second, false});
  return out;
}

std::vector<Deviation> verdict_differences(const Verdict& was, const Verdict& now) {
  Comparison c;
  const auto same_case = [](const CaseVerdict& a) {
    return [&a](const CaseVerdict& b) {
      return a.op == b.op && a.size == b.size && a.case_name == b.case_name &&
             a.variant == b.variant && a.routing == b.routing;
    };
  };
  for (const auto& before : was.cases) {
    const auto after = std::find_if(now.cases.begin(), now.cases.end(), same_case(before));
    if (after == now.cases.end())
      c.note(name_of_case(before), name_of(before.status), "not reached", true);
    else
      c.compare(before, *after);
  }
  for (const auto& after : now.cases)
    if (std::none_of(was.cases.begin(), was.cases.end(), same_case(after)))
      c.note(name_of_case(after), "not reached", name_of(after.status), true);
  c.note("status of the whole", name_of(was.status), name_of(now.status),
         changed(was.status, now.status));
  if (was.aggregate.ratio.value > 0 || now.aggregate.ratio.value > 0) {
    const auto timed = [](const Ratio& r) { return r.value > 0 ? &r : nullptr; };
    c.speed("the whole", timed(was.aggregate.ratio), timed(now.aggregate.ratio));
  }
  return std::move(c.found);
}

}  // namespace fk
