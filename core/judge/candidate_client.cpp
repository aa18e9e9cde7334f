// SPDX-License-Identifier: Apache-2.0
// Requests to a worker during a case run. Answers are untrusted data: each field is checked before
// its use.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/clock.hpp"
#include "core/base/text.hpp"
#include "core/judge/judge.hpp"
#include "core/judge/timing_penalty.hpp"

namespace fk {

namespace {

constexpr double kBytesMost = 1e15;  // most bytes that a claim may name

std::optional<double> number_in(const Json& answer, const char* key) {
  const auto it = answer.is_object() ? answer.find(key) : answer.end();
  if (it == answer.end() || !it->is_number()) return std::nullopt;
  const double value = it->get<double>();
  return std::isfinite(value) && value >= 0 ? std::optional(value) : std::nullopt;
}

bool flag(const Json& answer, const char* key) {
  const auto it = answer.find(key);
  return it != answer.end() && it->is_boolean() && it->get<bool>();
}

std::string words_of(const Json& answer, const char* key) {
  const auto it = answer.find(key);
  return it != answer.end() && it->is_string() ? it->get<std::string>().substr(0, 4096) : "";
}

// Begin and end of a rank's calls, as it reports them; zeros when it reports none.
std::pair<double, double> span_of(const Json& answer) {
  const auto it = answer.find("span");
  if (it == answer.end() || !it->is_array() || it->size() != 2) return {};
  const double begin_s = (*it)[0].is_number() ? (*it)[0].get<double>() : NAN;
  const double end_s = (*it)[1].is_number() ? (*it)[1].get<double>() : NAN;
  return begin_s > 0 && end_s >= begin_s ? std::pair(begin_s, end_s) : std::pair(0.0, 0.0);
}

std::optional<LaunchFacts> facts_of(const Json& answer) {
  const auto it = answer.find("facts");
  if (it == answer.end() || !it->is_object()) return std::nullopt;
  constexpr double kMost = 1e12;
  const auto whole = [&](const char* key) {
    return static_cast<int64_t>(std::min(number_in(*it, key).value_or(0), kMost));
  };
  LaunchFacts out;
  out.launches = whole("launches");
  out.registers = whole("registers");
  out.local_bytes = whole("local_bytes");
  out.shared_bytes = whole("shared_bytes");
  out.occupancy = std::min(number_in(*it, "occupancy").value_or(0), 1.0);
  out.kernel = excerpt(words_of(*it, "kernel"), 200);
  out.of_library = excerpt(words_of(*it, "of_library"), 200);
  return out;
}

}  // namespace

std::string CandidateClient::rank_text(size_t rank) const {
  return runners_.size() > 1 ? "rank " + std::to_string(rank) + ": " : "";
}

std::optional<std::vector<Json>> CandidateClient::ask(const char* task, const Json& arguments,
                                                      const std::vector<int>& fds,
                                                      const std::function<void()>& done) {
  words_.clear();
  who_.clear();
  auto answers = runners_.ask_all(task, arguments, fds, done);
  if (!answers) return std::nullopt;
  bool failed = false, echo = false;
  for (size_t r = 0; r < answers->size(); ++r) {
    const Json& answer = (*answers)[r];
    if (!answer.is_object()) {
      runners_.condemn("protocol", rank_text(r) + "a malformed answer to " + task);
      return std::nullopt;
    }
    const auto it = answer.find("failed");
    lost_ |= it != answer.end() && flag(answer, "lost");
    // A rank that failed only because another one failed is not named.
    if (it == answer.end() || (failed && (!echo || flag(answer, "echo")))) continue;
    failed = true;
    echo = flag(answer, "echo");
    words_ = it->is_string() ? it->get<std::string>().substr(0, 4096) : "failed without words";
    who_ = echo ? "" : rank_text(r);
  }
  return failed ? std::nullopt : std::move(answers);
}

bool CandidateClient::takes(const Json& shape) {
  Json arguments = shape;
  arguments["plugin"] = plugin_;
  return ask("case_takes", arguments, {}).has_value();
}

bool CandidateClient::sit(const Json& case_run, const std::vector<int>& fds) {
  Json arguments = case_run;
  arguments["plugin"] = plugin_;
  const auto answers = ask("case_begin", arguments, fds);
  if (!answers) return false;
  deterministic = true;
  keeps = false;
  given_bytes.clear();
  for (const Json& answer : *answers) {
    given_bytes.push_back(
        static_cast<int64_t>(std::min(number_in(answer, "given").value_or(0), kBytesMost)));
    deterministic &= flag(answer, "deterministic");
    keeps |= flag(answer, "keeps");
  }
  return true;
}

bool CandidateClient::arm(int case_run, bool plan, const std::vector<int>& sets, int first,
                          int count, bool all, bool once) {
  const auto answers = ask("case_arm",
                           {{"case_run", case_run},
                            {"plan", plan},
                            {"sets", sets},
                            {"first", first},
                            {"count", count},
                            {"all", all},
                            {"once", once}},
                           {});
  if (!answers) return false;
  plan_s = 0;
  for (const Json& answer : *answers)
    plan_s = std::max(plan_s, number_in(answer, "plan_s").value_or(0));
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

std::optional<CandidateClient::Conformance> CandidateClient::conformance(const Json& request) {
  Json arguments = request;
  arguments["plugin"] = plugin_;
  const auto answers = ask("case_conformance", arguments, {});
  if (!answers) return std::nullopt;
  Conformance out;
  bool echo = true;
  for (size_t r = 0; r < answers->size(); ++r) {
    const Json& answer = (*answers)[r];
    const std::string rule = words_of(answer, "rule");
    if (rule.empty() || (!out.rule.empty() && (!echo || flag(answer, "echo")))) continue;
    echo = flag(answer, "echo");
    out = {words_of(answer, "case"), rule, rank_text(r) + words_of(answer, "text")};
  }
  return out;
}

std::optional<CandidateClient::Call> CandidateClient::run(int case_run, int first, int count,
                                                          double since, int core, bool warm,
                                                          bool eager,
                                                          const std::function<void()>& done) {
  const auto answers = ask("case_calls",
                           {{"case_run", case_run},
                            {"first", first},
                            {"count", count},
                            {"core", core},
                            {"warm", warm},
                            {"eager", eager}},
                           {}, done);
  const double end = now_seconds();
  if (!answers) return std::nullopt;
  Call out;
  out.wall_s = end - since;
  double first_s = end, last_s = since;  // first begin and last end of any rank
  for (size_t r = 0; r < answers->size(); ++r) {
    const Json& answer = (*answers)[r];
    const auto claim = number_in(answer, "call_s");
    if (!claim) {
      runners_.condemn("protocol", rank_text(r) + "its time is no number");
      return std::nullopt;
    }
    out.own_s = std::max(out.own_s, count ? counted_s(*claim) : 0);
    if (const auto [begin_s, end_s] = span_of(answer); begin_s > 0) {
      first_s = std::min(first_s, begin_s);
      last_s = std::max(last_s, end_s);
    }
    out.captured = flag(answer, "captured");
    out.late |= flag(answer, "late");
    out.facts = facts_of(answer);
  }
  // A late wake-up is no late begin: the claim spans the first begin to the last end.
  out.claim_s = count ? std::max(out.own_s, (last_s - first_s) / count) : out.own_s;
  return out;
}

}  // namespace fk
