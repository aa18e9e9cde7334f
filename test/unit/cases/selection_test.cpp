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
