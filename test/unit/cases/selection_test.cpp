// SPDX-License-Identifier: Apache-2.0
// Choices by scores that the op computes itself: a near tie may go either way, no more.
#include "core/cases/selection.hpp"

#include "test/catch.hpp"

namespace {

using fk::DType;
using fk::Tensor;

const char* kPick = R"yaml(op: pick
revision: 1
summary: scores and the best of them
axes: {B: rows, V: columns, C: channels}
init:
  - {name: columns, type: int, axis: V}
  - {name: size, type: int, axis: C}
forward:
  - {name: ids, role: in, shape: [B], dtype: [i64], values: "arange"}
  - {name: scores, role: out, shape: [B, V], dtype: [f32]}
  - {name: best, role: out, shape: [B], dtype: [i64]}
tolerance: {numerics: selection, length: C}
cases:
  smoke:
    - {B: 3, columns: 4, size: 64}
)yaml";

Tensor made(DType type, fk::Shape shape, const std::vector<double>& values) {
  Tensor t(type, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) t.set(static_cast<int64_t>(i), values[i]);
  return t;
}

}  // namespace

TEST_CASE("selection_by_computed_scores_forgives_ties_within_their_tolerance") {
  const auto c = fk::Contract::parse(kPick, "pick.yaml", 1, "test");
  const auto r = fk::resolve(c, c.cases[0], {});
  fk::CaseValues want;
  // A tie within float32's error of sums, a clear winner, an exact tie.
  want["scores"] = {made(DType::f32, {3, 4}, {1, 1 + 1e-6, -1, 0, 2, 1, 0, -1, 0.5, -1, 0.5, 0})};
  want["best"] = {made(DType::i64, {3}, {1, 0, 0})};
  const Tensor got = made(DType::i64, {3}, {0, 1, 2});
  const auto ask = [](const fk::CaseValues&) { return fk::CaseValues{}; };
  const auto equal = fk::equally_right(r, *r.find("best"), got, want, {}, ask);
  CHECK(equal == std::vector<uint8_t>{1, 0, 1});
  const Tensor outside = made(DType::i64, {3}, {4, -1, 1});
  CHECK(fk::equally_right(r, *r.find("best"), outside, want, {}, ask) ==
        std::vector<uint8_t>{0, 0, 0});
}

// Of scores that float32 cannot tell apart some are the same number: those have an order among
// themselves, whichever of the others are chosen beside them.
TEST_CASE("selection_of_several_keeps_the_order_of_equal_scores_beside_near_ones") {
  const auto c = fk::Contract::parse(
      "op: several\nrevision: 1\nsummary: the best columns\naxes: {B: rows, V: columns, K: "
      "chosen}\n"
      "init:\n  - {name: columns, type: int, axis: V}\n  - {name: chosen, type: int, axis: K}\n"
      "forward:\n  - {name: scores, role: in, shape: [B, V], dtype: [f32]}\n"
      "  - {name: best, role: out, shape: [B, K], dtype: [i32]}\n"
      "tolerance: {numerics: selection}\n"
      "cases:\n  smoke:\n    - {B: 3, columns: 4, chosen: 2}\n",
      "several.yaml", 1, "test");
  const auto r = fk::resolve(c, c.cases[0], {});
  const std::vector<double> row = {-1e-42, 3e-45, -5e-43, 3e-45};
  fk::CaseValues values, want;
  values["scores"] = {Tensor(DType::f32, {3, 4})};
  for (int64_t i = 0; i < 12; ++i) values["scores"][0].set(i, row[static_cast<size_t>(i % 4)]);
  want["best"] = {made(DType::i32, {3, 2}, {0, 1, 0, 1, 0, 1})};
  const auto ask = [](const fk::CaseValues&) { return fk::CaseValues{}; };
  // The best two in order; only the last of equals; one of them twice.
  const Tensor got = made(DType::i32, {3, 2}, {1, 3, 0, 3, 1, 1});
  CHECK(fk::equally_right(r, *r.find("best"), got, want, values, ask) ==
        std::vector<uint8_t>{1, 1, 0, 0, 0, 0});
}
