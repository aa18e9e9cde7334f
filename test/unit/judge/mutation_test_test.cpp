// SPDX-License-Identifier: Apache-2.0
// The gate of a judged case: of a large output some rows stand for all, and time is bounded.
#include "core/judge/mutation_test.hpp"

#include <algorithm>

#include "test/catch.hpp"

namespace {

fk::Contract twice() {
  return fk::Contract::parse(
      "op: twice\nrevision: 1\nsummary: x and x\naxes: {T: rows, C: width}\n"
      "init:\n  - {name: size, type: int, axis: C}\n"
      "forward:\n  - {name: x, role: in, shape: [T, C], dtype: float}\n"
      "  - {name: out, role: out, shape: [T, C], dtype: x}\n"
      "tolerance: {numerics: elementwise}\ncases:\n  smoke:\n    - {T: 3000, size: 256}\n",
      "twice.yaml", 1, "test");
}

fk::CaseValues right_answer(const fk::CaseValues& in) {
  fk::CaseValues out;
  fk::Tensor t = in.at("x")[0].to(fk::DType::f32);
  for (float& v : t.as<float>()) v *= 2;
  out["out"].push_back(std::move(t));
  return out;
}

}  // namespace

TEST_CASE("null_gate_tries_some_rows_of_a_large_output") {
  const auto c = twice();
  const auto r = fk::resolve(c, c.cases[0], {});
  const auto inputs = fk::make_inputs(r, 1, 1);
  int64_t most = 0;
  const auto ask = [&](const fk::ResolvedCase& call, const fk::Variant&,
                       const fk::CaseValues& values) {
    most = std::max(most, fk::numel(call.find("out")->shape));
    return right_answer(values);
  };
  const auto tried = fk::try_mutants(r, c.cases[0], {}, inputs, right_answer(inputs), ask, 1e9);
  CHECK(most > 1 << 14);
  CHECK(most <= 1 << 15);
  CHECK(tried.size() >= 9);
  for (const auto& mutant : tried) {
    INFO(mutant.name);
    CHECK(mutant.rejected);
    CHECK(mutant.worst > 1);
  }
}

TEST_CASE("null_gate_ends_with_its_time") {
  const auto c = twice();
  const auto r = fk::resolve(c, c.cases[0], {});
  const auto inputs = fk::make_inputs(r, 1, 1);
  const auto ask = [](const fk::ResolvedCase&, const fk::Variant&, const fk::CaseValues& values) {
    return right_answer(values);
  };
  const auto tried = fk::try_mutants(r, c.cases[0], {}, inputs, right_answer(inputs), ask, 0);
  REQUIRE(tried.size() > 1);
  CHECK(tried[0].why.empty());
  for (size_t i = 1; i < tried.size(); ++i) {
    INFO(tried[i].name);
    CHECK(tried[i].why == "no time");
    CHECK_FALSE(tried[i].rejected);
  }
  const auto lower = [](const fk::MutantRow& mutant) {
    return mutant.name.starts_with("inputs in");
  };
  CHECK(std::any_of(tried.begin(), tried.end(), lower));
}
