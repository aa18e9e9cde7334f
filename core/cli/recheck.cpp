// SPDX-License-Identifier: Apache-2.0
#include "core/cli/recheck.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/cases/selection.hpp"
#include "core/cli/judged.hpp"
#include "core/judge/verdict/secret.hpp"

namespace fk {

namespace {

// The first case that is refused now and was right as written; null: none.
const CaseVerdict* refused_now(const Verdict& now, const std::vector<CheckRow>& rows) {
  const auto was_right = [&](const CaseVerdict& c) {
    return std::any_of(rows.begin(), rows.end(), [&](const CheckRow& row) {
      return row.status == CheckStatus::ok && row.op == c.op && row.case_name == c.case_name &&
             row.variant == Variant().name;
    });
  };
  for (const CaseVerdict& c : now.cases)
    if (c.status == Status::refused && c.variant.empty() && was_right(c)) return &c;
  return nullptr;
}

}  // namespace

Recheck recheck(Question question, const std::vector<CheckRow>& rows) {
  question.policy.seconds = 0;
  const auto judged = [&] {
    return ask(question, the_judge(Seeds::any), Secret::draw(), FK_VERSION);
  };
  Verdict now = judged();
  if (now.status == Status::refused) {
    question.policy.dtypes = question.policy.variants = {"all"};
    now = judged();
  }
  Recheck out{now.status, now.why};
  const bool took =
      std::ranges::any_of(rows, [](const CheckRow& row) { return row.status == CheckStatus::ok; });
  out.disagrees = is_failure(now.status) || (took && now.status == Status::refused);
  if (const CaseVerdict* refused = refused_now(now, rows); refused && !out.disagrees) {
    out.status = Status::refused;
    out.why = refused->op + ", case " + refused->case_name + ": " + refused->why;
    out.disagrees = true;
  }
  return out;
}

}  // namespace fk
