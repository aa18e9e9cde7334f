// SPDX-License-Identifier: Apache-2.0
// Requests to a worker during a case run. Answers are untrusted data: each field is checked before
// its use.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/clock.hpp"
#include "core/base/text.hpp"
#include "core/judge/judge.hpp"
#include "core/judge/race/timing_penalty.hpp"

namespace fk {

namespace {

constexpr int64_t kBytesMost = 1'000'000'000'000'000;  // that a claim is believed to be

// The claim where it is possible, else 0.
double sane(double claim, double most) {
  return std::isfinite(claim) && claim >= 0 ? std::min(claim, most) : 0;
}

LaunchFacts bounded(LaunchFacts facts) {
  constexpr int64_t kMost = 1'000'000'000'000;
  for (int64_t* number :
       {&facts.launches, &facts.registers, &facts.local_bytes, &facts.shared_bytes})
    *number = std::clamp<int64_t>(*number, 0, kMost);
  facts.occupancy = sane(facts.occupancy, 1);
  facts.kernel = excerpt(facts.kernel, 200);
  facts.of_library = excerpt(facts.of_library, 200);
  return facts;
}

}  // namespace

std::string CandidateClient::rank_text(size_t rank) const {
  return runners_.size() > 1 ? "rank " + std::to_string(rank) + ": " : "";
}

bool CandidateClient::any_failed(const std::vector<NotDone>& ranks) {
  bool echo = false;
  for (size_t r = 0; r < ranks.size(); ++r) {
    const NotDone& rank = ranks[r];
    lost_ |= rank.lost;
    // A rank that failed only because another one failed is not named.
    if (rank.why.empty() || (!words_.empty() && (!echo || rank.echo))) continue;
    echo = rank.echo;
    words_ = rank.why;
    who_ = echo ? "" : rank_text(r);
  }
  return !words_.empty();
}

bool CandidateClient::takes(const AskedCase& asked, const std::string& device) {
  return ask(CaseTakes{plugin_, asked, device}).has_value();
}

bool CandidateClient::sit(CaseBegin shape, const std::vector<int>& fds) {
  shape.plugin = plugin_;
  const auto answers = ask(shape, fds);
  if (!answers) return false;
  deterministic = true;
  keeps = false;
  given_bytes.clear();
  for (const CaseBegun& answer : *answers) {
    given_bytes.push_back(std::clamp<int64_t>(answer.given, 0, kBytesMost));
    deterministic &= answer.deterministic;
    keeps |= answer.keeps;
  }
  return true;
}

bool CandidateClient::arm(int case_run, bool plan, const std::vector<int>& sets, int first,
                          int count, bool all, bool once) {
  const auto answers = ask(CaseArm{case_run, plan, sets, first, count, all, once});
  if (!answers) return false;
  plan_s = 0;
  for (const double seconds : *answers) plan_s = std::max(plan_s, sane(seconds, HUGE_VAL));
  if (runners_.size() == 1) armed_.emplace(first, count);
  for (const int set : sets)
    if (runners_.size() > 1) armed_.emplace(set, 1);
  return true;
}

bool CandidateClient::armed(const std::vector<int>& sets) const {
  if (sets.empty()) return true;
  if (runners_.size() == 1) return armed_.count({sets[0], static_cast<int>(sets.size())}) > 0;
  return std::all_of(sets.begin(), sets.end(), [&](int s) { return armed_.count({s, 1}) > 0; });
}

std::optional<CaseConformed> CandidateClient::conformance(CaseConformance request) {
  request.plugin = plugin_;
  const auto answers = ask(request);
  if (!answers) return std::nullopt;
  CaseConformed out;
  for (size_t r = 0; r < answers->size(); ++r) {
    const CaseConformed& answer = (*answers)[r];
    if (answer.rule.empty() || (!out.rule.empty() && (!out.echo || answer.echo))) continue;
    out = answer;
    out.text = rank_text(r) + out.text;
  }
  return out;
}

std::optional<CandidateClient::Call> CandidateClient::run(int case_run, int first, int count,
                                                          double since, int core, bool warm,
                                                          bool eager,
                                                          const std::function<void()>& done) {
  const auto answers = ask(CaseCalls{case_run, first, count, core, warm, eager}, {}, done);
  const double end = now_seconds();
  if (!answers) return std::nullopt;
  Call out;
  out.wall_s = end - since;
  double first_s = end, last_s = since;  // first begin and last end of any rank
  for (size_t r = 0; r < answers->size(); ++r) {
    const CallClaim& claim = (*answers)[r];
    if (!std::isfinite(claim.call_s) || claim.call_s < 0) {
      runners_.condemn("protocol", rank_text(r) + "its time is no number");
      return std::nullopt;
    }
    out.own_s = std::max(out.own_s, count ? counted_s(claim.call_s) : 0);
    if (const auto& span = claim.span; span && span->begin_s > 0 && span->end_s >= span->begin_s) {
      first_s = std::min(first_s, span->begin_s);
      last_s = std::max(last_s, span->end_s);
    }
    out.captured = claim.captured;
    out.late |= claim.late;
    out.facts = claim.facts ? std::optional(bounded(*claim.facts)) : std::nullopt;
  }
  // A late wake-up is no late begin: the claim spans the first begin to the last end.
  out.claim_s = count ? std::max(out.own_s, (last_s - first_s) / count) : out.own_s;
  return out;
}

}  // namespace fk
