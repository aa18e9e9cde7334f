// SPDX-License-Identifier: Apache-2.0
// The layouts of tensors with gaps in hidden cases.
#include <algorithm>

#include "core/judge/plan/case_plan.hpp"
#include "core/judge/plan/hidden_cases.hpp"
#include "test/catch.hpp"
#include "test/unit/catalog.hpp"

using namespace fk;

// A kernel with dense heads refuses gaps between heads. Its row step was then never tested.
TEST_CASE("hidden rows have gaps behind rows alone too, in tensors which a call writes") {
  const Contract& contract = catalog().at("rotary_embedding");
  const auto source =
      std::ranges::find_if(contract.cases, [](const Case& c) { return c.size == "ci"; });
  REQUIRE(source != contract.cases.end());
  const auto names = hidden_variants(contract, *source);
  CHECK(names.back() == "hidden rows and dense heads, padded");
  CHECK(hidden_parts(names.back()) == kHiddenDense);
  const auto dense = [&](const std::string& variant, const Secret& secret) {
    AskedCase asked;
    asked.op = contract.op, asked.name = source->name, asked.size = source->size;
    asked.variant = variant;
    const PosedCase posed = pose(hidden_by(asked, secret), contract, *source);
    const ResolvedCase hidden = resolve(contract, posed.source, posed.variant);
    const CaseField& q = *hidden.find("q");
    CHECK(q.slot->role == Role::inout);
    CHECK(q.strided);
    return q.dense_rows;
  };
  int drawn = 0;
  for (int i = 0; i < 60; ++i) {
    const Secret secret = Secret::draw();
    drawn += dense("hidden rows, padded", secret);
    CHECK(dense(names.back(), secret));
  }
  CHECK((drawn > 0 && drawn < 60));
  // Either layout of the padded variant tests row steps, so the last variant is needless then.
  CaseVerdict row;
  row.op = "rotary_embedding", row.size = "ci", row.case_name = source->name;
  row.status = Status::correct;
  HiddenCases cases;
  cases.judged(row);
  row.beside = true;
  row.variant = "hidden rows, padded";
  CHECK(cases.wants(row, 3));
  row.status = Status::refused;
  cases.judged(row);
  row.variant = names.back();
  CHECK(cases.wants(row, 3));
  row.variant = "hidden rows, padded", row.status = Status::correct;
  cases.judged(row);
  row.variant = names.back();
  CHECK_FALSE(cases.wants(row, 3));
}

// A hidden case is named when it is planned, and again when the secret has chosen its rows.
TEST_CASE("hidden cases name each tensor with gaps once") {
  const Contract& contract = catalog().at("rotary_embedding");
  CaseVerdict row;
  for (int i = 0; i < 2; ++i) {
    AskedCase asked;
    asked.op = contract.op, asked.name = "pitch", asked.size = "smoke";
    const auto source =
        std::ranges::find_if(contract.cases, [](const Case& c) { return c.name == "pitch"; });
    REQUIRE(source != contract.cases.end());
    name_case(row, contract, pose(asked, contract, *source));
    CHECK(row.strided == std::vector<std::string>{"q", "k"});
  }
}
