// SPDX-License-Identifier: Apache-2.0
// What is asked of a runner that sits an examination. Answers are data from a stranger: every field
// is looked at before it is used.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/text.hpp"
#include "core/referee/judge/judge.hpp"

namespace fk {

namespace {

std::optional<double> number(const Json& answer, const char* key) {
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

std::optional<LaunchFacts> facts_of(const Json& answer) {
  const auto it = answer.find("facts");
  if (it == answer.end() || !it->is_object()) return std::nullopt;
  constexpr double kMost = 1e12;
  const auto whole = [&](const char* key) {
    return static_cast<int64_t>(std::min(number(*it, key).value_or(0), kMost));
  };
  LaunchFacts out;
  out.launches = whole("launches");
  out.registers = whole("registers");
  out.local_bytes = whole("local_bytes");
  out.shared_bytes = whole("shared_bytes");
  out.occupancy = std::min(number(*it, "occupancy").value_or(0), 1.0);
  if (const auto name = it->find("kernel"); name != it->end() && name->is_string())
    out.kernel = excerpt(name->get<std::string>(), 200);
  return out;
}

}  // namespace

std::optional<Json> Sitter::ask(const char* task, const Json& arguments,
                                const std::vector<int>& fds) {
  words_.clear();
  auto answer = runner_.task(task, arguments, {}, fds);
  if (!answer) return std::nullopt;
  if (!answer->is_object()) {
    runner_.condemn("protocol", "a malformed answer to " + std::string(task));
    return std::nullopt;
  }
  if (const auto it = answer->find("failed"); it != answer->end()) {
    words_ = it->is_string() ? it->get<std::string>().substr(0, 4096) : "failed without words";
    return std::nullopt;
  }
  return answer;
}

bool Sitter::sit(const Json& exam, const std::vector<int>& fds) {
  Json arguments = exam;
  arguments["plugin"] = plugin_;
  const auto answer = ask("exam_sit", arguments, fds);
  if (answer) deterministic = flag(*answer, "deterministic");
  if (answer) keeps = flag(*answer, "keeps");
  return answer.has_value();
}

bool Sitter::arm(int exam, bool plan, const std::vector<int>& sets, int first, int count) {
  const auto answer =
      ask("exam_arm",
          {{"exam", exam}, {"plan", plan}, {"sets", sets}, {"first", first}, {"count", count}}, {});
  if (answer) plan_s = number(*answer, "plan_s").value_or(0);
  return answer.has_value();
}

std::optional<Sitter::Conduct> Sitter::conduct(const Json& request) {
  Json arguments = request;
  arguments["plugin"] = plugin_;
  const auto answer = ask("exam_conduct", arguments, {});
  if (!answer) return std::nullopt;
  return Conduct{words_of(*answer, "case"), words_of(*answer, "rule"), words_of(*answer, "text")};
}

std::optional<Sitter::Call> Sitter::run(int exam, int first, int count, double since) {
  const auto answer = ask("exam_run", {{"exam", exam}, {"first", first}, {"count", count}}, {});
  const double end = now_seconds();
  if (!answer) return std::nullopt;
  const auto claim = number(*answer, "call_s");
  if (!claim) {
    runner_.condemn("protocol", "its time is no number");
    return std::nullopt;
  }
  return Call{*claim, end - since, flag(*answer, "captured"), 0, facts_of(*answer)};
}

}  // namespace fk
