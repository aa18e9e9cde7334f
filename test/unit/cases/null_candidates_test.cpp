// SPDX-License-Identifier: Apache-2.0
// Mutants of a product whose reference has a few lines. All are refused if the case tells right
// answers from mutants. Otherwise they are named.
#include "core/cases/numerics/mutants.hpp"

#include <algorithm>
#include <cmath>

#include "core/cases/comparison.hpp"
#include "test/catch.hpp"

namespace {

fk::Contract product() {
  return fk::Contract::parse(
      "op: product\nrevision: 1\nsummary: x times weight\naxes: {T: rows, C: width}\n"
      "init:\n  - {name: size, type: int, axis: C}\n"
      "weights:\n  - {name: weight, shape: [C], dtype: x}\n"
      "forward:\n  - {name: x, role: in, shape: [T, C], dtype: float}\n"
      "  - {name: out, role: out, shape: [T, C], dtype: x}\n"
      "tolerance: {numerics: elementwise}\ncases:\n  smoke:\n    - {T: 40, size: 24}\n",
      "product.yaml", 1, "test");
}

fk::CaseValues answer(const fk::CaseValues& in) {
  fk::CaseValues out;
  fk::Tensor t(fk::DType::f32, in.at("x")[0].shape);
  for (int64_t i = 0; i < t.numel(); ++i)
    t.set(i, in.at("x")[0].at(i) * in.at("weight")[0].at(i % 24));
  out["out"].push_back(t);
  return out;
}

}  // namespace

TEST_CASE("null_candidates_are_made_and_refused_in_every_dtype") {
  const auto c = product();
  for (const auto dtype : {fk::DType::f32, fk::DType::bf16, fk::DType::f16}) {
    fk::Variant variant;
    variant.dtypes["x"] = dtype;
    const auto r = fk::resolve(c, c.cases[0], variant);
    const auto inputs = fk::make_inputs(r, 3, 1);
    const auto want = answer(inputs);
    std::vector<std::string> names;
    fk::each_mutant(r, inputs, want, answer, [&](const fk::Mutant& mutant) {
      names.push_back(mutant.name);
      return true;
    });
    for (const char* name : {"zeros in out", "a copy of x in out", "the mean everywhere in out",
                             "half of the rows missing in out", "the last row missing in out",
                             "a late tile missing in out", "two rows swapped in out",
                             "1.01 times the answer in out", "every weight 1"})
      CHECK(std::count(names.begin(), names.end(), name) == 1);
    CHECK(std::count(names.begin(), names.end(), "inputs in tf32") == (dtype == fk::DType::f32));
    CHECK(std::count(names.begin(), names.end(), "inputs in f8e4m3") == (dtype != fk::DType::f32));
    INFO(fk::name(dtype));
    CHECK(fk::accepted_mutants(r, inputs, want, answer).empty());
  }
}

TEST_CASE("null_candidates_that_pass_are_named") {
  const auto c = product();
  const auto r = fk::resolve(c, c.cases[0], {});
  auto inputs = fk::make_inputs(r, 3, 1);
  for (int64_t i = 0; i < 24; ++i)
    inputs["weight"][0].set(i, 1 + 1e-7 * static_cast<double>(i % 2));
  auto accepted = fk::accepted_mutants(r, inputs, answer(inputs), answer);
  CHECK(std::count(accepted.begin(), accepted.end(), "a copy of x in out") == 1);
  for (int64_t i = 0; i < 960; ++i) inputs["x"][0].set(i, 0);
  accepted = fk::accepted_mutants(r, inputs, answer(inputs), answer);
  CHECK(std::count(accepted.begin(), accepted.end(), "zeros in out") == 1);
}

TEST_CASE("comparison_of_a_part_looks_at_rows_that_nobody_foresees") {
  const auto c = product();
  const auto r = fk::resolve(c, c.cases[0], {});
  const auto inputs = fk::make_inputs(r, 3, 1);
  const auto want = answer(inputs);
  auto got = want;
  // One row in eleven is compared: those that an even choice would take are right.
  const int64_t width = want.at("out")[0].shape[1];
  for (int64_t i = 0; i < 960; ++i)
    if (i / width % 11) got["out"][0].set(i, 0);
  bool rejected = false;
  for (int i = 0; i < 4; ++i)
    rejected |= !fk::compare_outputs(r, inputs, got, want, 960 / 10, nullptr).ok;
  CHECK(rejected);
  CHECK(fk::compare_outputs(r, inputs, want, want, 960 / 10, nullptr).ok);
}

TEST_CASE("comparison_measures_what_rounding_does_and_refuses_the_rest") {
  const auto c = product();
  const auto r = fk::resolve(c, c.cases[0], {});
  const auto inputs = fk::make_inputs(r, 3, 1);
  // A reference that magnifies rounding a thousandfold: the difference to a rounded neighbour.
  const auto steep = [&](const fk::CaseValues& in) {
    fk::CaseValues out = answer(in);
    for (int64_t i = 0; i < out["out"][0].numel(); ++i) {
      const double moved = in.at("x")[0].at(i) - inputs.at("x")[0].at(i);
      out["out"][0].set(i, out["out"][0].at(i) + 100 * moved);
    }
    return out;
  };
  const auto want = steep(inputs);
  auto got = want;
  for (int64_t i = 0; i < 960; ++i)
    got["out"][0].set(i, want.at("out")[0].at(i) * (1 + (i % 2 ? 2e-5 : 0)));
  CHECK_FALSE(fk::compare_outputs(r, inputs, got, want, fk::kMostElements, nullptr).ok);
  CHECK_FALSE(fk::compare_outputs(r, inputs, got, want, fk::kMostElements, answer).ok);
  CHECK(fk::compare_outputs(r, inputs, got, want, fk::kMostElements, steep).ok);
  got["out"][0].set(7, want.at("out")[0].at(7) + 0.1);
  const auto wrong = fk::compare_outputs(r, inputs, got, want, fk::kMostElements, steep);
  CHECK_FALSE(wrong.ok);
  CHECK(wrong.field == "out");
  // A comparison without a search for the place has the same sentence, without the place.
  CHECK_FALSE(wrong.wrong.pattern.empty());
  CHECK_THAT(wrong.text, ContainsSubstring(wrong.wrong.pattern));
  const auto looked = fk::Comparer(r, inputs, want, steep).look(got, "out");
  CHECK_FALSE(looked.ok);
  CHECK(looked.wrong.count == wrong.wrong.count);
  CHECK(looked.worst == wrong.worst);
  CHECK(looked.wrong.pattern.empty());
}
