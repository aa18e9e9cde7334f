// SPDX-License-Identifier: Apache-2.0
// A weight that a contract allows in the dtype of the inputs: rounding it is right, no more.
#include <cmath>

#include "core/cases/comparison.hpp"
#include "core/tensor/random.hpp"
#include "test/catch.hpp"

namespace {

using fk::DType;
using fk::Tensor;

constexpr int64_t kRows = 4, kTurned = 64;

fk::Contract turn_contract(const std::string& rounded) {
  return fk::Contract::parse(
      "op: turn\nrevision: 1\nsummary: a difference of two products\n"
      "axes: {T: rows, C: channels}\n"
      "init:\n  - {name: size, type: int, axis: C}\n"
      "weights:\n  - {name: table, shape: [2, C], dtype: [f32]}\n"
      "forward:\n  - {name: x, role: in, shape: [T, C], dtype: float}\n"
      "  - {name: out, role: out, shape: [T, C], dtype: x}\n"
      "tolerance: {numerics: elementwise" +
          rounded + "}\ncases:\n  smoke:\n    - {T: 4, size: 64, dtype: {x: bf16}}\n",
      "turn.yaml", 1, "test");
}

// Neighbouring channels turn with an angle of the table: differences cancel in some places.
Tensor turned(const Tensor& x, const Tensor& table, DType out_dtype) {
  Tensor out(out_dtype, {kRows, kTurned});
  for (int64_t t = 0; t < kRows; ++t)
    for (int64_t c = 0; c < kTurned; ++c) {
      const double other = x.at(t * kTurned + (c + 1) % kTurned);
      out.set(t * kTurned + c,
              x.at(t * kTurned + c) * table.at(c) - other * table.at(kTurned + c));
    }
  return out;
}

struct Turn {
  fk::CaseValues inputs, want;
  Turn() {
    fk::Random random(7);
    Tensor x(DType::bf16, {kRows, kTurned}), table(DType::f32, {2, kTurned});
    for (int64_t i = 0; i < x.numel(); ++i) x.set(i, random.normal());
    for (int64_t c = 0; c < kTurned; ++c) {
      const double angle = 6 * random.uniform();
      table.set(c, std::cos(angle)), table.set(kTurned + c, std::sin(angle));
    }
    inputs["x"] = {x}, inputs["table"] = {table};
    want = answer(inputs);
  }
  static fk::CaseValues answer(const fk::CaseValues& values) {
    fk::CaseValues out;
    out["out"] = {turned(values.at("x")[0], values.at("table")[0], DType::f32)};
    return out;
  }
  // The comparison of an answer with this table and a factor.
  fk::Comparison with(const fk::Contract& contract, const Tensor& table, double factor = 1) const {
    const auto resolved = fk::resolve(contract, contract.cases[0], {});
    Tensor got = turned(inputs.at("x")[0], table, DType::f32);
    for (int64_t i = 0; i < got.numel(); ++i) got.set(i, got.at(i) * factor);
    const fk::CaseValues mine = {{"out", {got.to(DType::bf16)}}};
    const auto ask = [](const fk::CaseValues& values) { return answer(values); };
    return fk::compare_outputs(resolved, inputs, mine, want, fk::kMostElements, ask);
  }
};

}  // namespace

TEST_CASE("a weight may be rounded to the inputs' dtype where the contract says so") {
  const Turn turn;
  const auto strict = turn_contract(""), open = turn_contract(", rounded: table");
  const Tensor& table = turn.inputs.at("table")[0];
  const Tensor rounded = table.to(DType::bf16).to(DType::f32);
  CHECK(turn.with(strict, table).ok);
  CHECK(turn.with(open, table).ok);
  CHECK_FALSE(turn.with(strict, rounded).ok);
  CHECK(turn.with(open, rounded).ok);
}

TEST_CASE("a weight in a lower precision than the inputs stays wrong") {
  const Turn turn;
  const auto open = turn_contract(", rounded: table");
  const Tensor& table = turn.inputs.at("table")[0];
  CHECK_FALSE(turn.with(open, table.to(DType::f8e4m3).to(DType::f32)).ok);
  CHECK_FALSE(turn.with(open, table, 1.02).ok);
  CHECK_FALSE(turn.with(open, table.to(DType::bf16).to(DType::f32), 1.02).ok);
}
