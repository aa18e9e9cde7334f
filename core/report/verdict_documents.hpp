// SPDX-License-Identifier: Apache-2.0
// Documents with verdicts inside.
#pragma once
#include <string>
#include <vector>

#include "core/judge/verdict/fields.hpp"
#include "core/report/document.hpp"

namespace fk {

// A verdict inside another document, with its own schema.
struct InnerVerdict : Verdict {
  static constexpr const char* kSchemaFile = "verdict.json";
};
template <class Visitor>
void fields(Visitor& v, InnerVerdict& inner) {
  std::string schema = kVerdictSchema;
  v("schema", schema, "the form of the verdict");
  if (schema != kVerdictSchema)
    fail("a verdict", "has the schema `" + excerpt(schema) + "`",
         std::string("this host knows ") + kVerdictSchema);
  fields(v, static_cast<Verdict&>(inner));
}

struct CandidateError {
  std::string candidate, where, what, hint;
};
template <class Visitor>
void fields(Visitor& v, CandidateError& e) {
  v("candidate", e.candidate, "the candidate as it was named");
  v("where", e.where, "the place of the error; empty: none");
  v("what", e.what, "what is wrong");
  v("hint", e.hint, "the nearest right thing; empty: none is known");
}

// ---- bench of several candidates ----

struct VerdictsDocument {
  static constexpr const char* kSchema = "fk-host.verdicts/1";
  static constexpr const char* kTitle = "The verdicts of `fk-host bench` on several candidates";
  std::vector<InnerVerdict> verdicts;
  std::vector<CandidateError> errors;
};
template <class Visitor>
void fields(Visitor& v, VerdictsDocument& d) {
  v("verdicts", d.verdicts, "one for each candidate, in the order of the judgements");
  v("errors", d.errors, "candidates without a verdict: the question was wrong for them");
}

}  // namespace fk
