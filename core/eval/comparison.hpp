// SPDX-License-Identifier: Apache-2.0
// Two evaluations of one suite beside each other, by op, model and family.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/eval/evaluation.hpp"
#include "core/eval/evaluation_tables.hpp"

namespace fk {

struct ComparedRow {
  std::string what;                       // "rms_norm ci0", "llama3.1, mixed", "llm"
  std::string a_status, b_status;         // empty: it has no such row
  std::optional<double> a, b;             // ratio to the baseline, or a component
  std::optional<double> gain, low, high;  // b over a
  std::string answer;                     // better, worse, same or cannot tell; empty: unknown
};
template <class Visitor>
void fields(Visitor& v, ComparedRow& r) {
  v("what", r.what, "op and case, scenario and workload, or family");
  v("a_status", r.a_status, "the first's status; empty: it has no such row");
  v("b_status", r.b_status, "the second's");
  v("a", r.a, "the first's ratio to the baseline, or its value; null: none");
  v("b", r.b, "the second's");
  v("gain", r.gain, "the second's over the first's; null: unknown");
  v("low", r.low, "lower end of its 95 % interval; null: unknown");
  v("high", r.high, "upper end");
  v("answer", r.answer, "better, worse, same or cannot tell: the second beside the first");
}

struct SubmissionComparison {
  static constexpr const char* kSchema = "fk-host.comparison/1";
  static constexpr const char* kTitle = "Two submissions beside each other";
  std::string a, b, a_id, b_id, suite, device;
  std::vector<std::string> notes;
  std::vector<ComparedRow> score, families, models, cases;
};
template <class Visitor>
void fields(Visitor& v, SubmissionComparison& c) {
  v("a", c.a, "the first submission");
  v("b", c.b, "the second submission");
  v("a_id", c.a_id, "id of its evaluation");
  v("b_id", c.b_id, "id of its evaluation");
  v("suite", c.suite, "the suite of both");
  v("device", c.device, "the first's device");
  v("notes", c.notes, "what makes the two less comparable");
  v("score", c.score, "score, speed, correctness and coverage");
  v("families", c.families, "speed by family");
  v("models", c.models, "by scenario and workload");
  v("cases", c.cases, "by op and case");
}

// Error when the suites differ, or an evaluation is not complete.
SubmissionComparison compare_evaluations(const Evaluation& a, const Evaluation& b);
std::vector<NamedTable> comparison_tables(const SubmissionComparison& comparison);

}  // namespace fk
