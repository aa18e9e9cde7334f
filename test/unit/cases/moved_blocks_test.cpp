// SPDX-License-Identifier: Apache-2.0
// Blocks that rounding moves by more than a value may be off.
#include "core/cases/numerics/moved_blocks.hpp"

#include <cmath>

#include "test/catch.hpp"

namespace {

fk::Tensor row(const std::vector<double>& values) {
  fk::Tensor out(fk::DType::f32, {1, static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) out.set(static_cast<int64_t>(i), values[i]);
  return out;
}

double off(const std::vector<double>& got, const std::vector<std::vector<double>>& moved) {
  fk::MovedBlock block;
  block.end = static_cast<int64_t>(got.size());
  fk::Tensor theirs = row({1, 0, 0, 0});
  for (const auto& other : moved) fk::mix_in(row(got), other, block, theirs);
  return fk::distance(row(got), theirs.values(), 0, block.end);
}

}  // namespace

TEST_CASE("moved_blocks_hold_what_lies_between_their_answers") {
  const std::vector<std::vector<double>> one = {{0, 1, 0, 0}};
  CHECK(off({0.3, 0.7, 0, 0}, one) < 1e-6);
  CHECK(off({0, 1, 0, 0}, one) < 1e-6);
  CHECK(off({1, 0, 0, 0}, one) == 0);
  CHECK(off({0.5, 0.1, 0.4, 0}, {{0, 1, 0, 0}, {0, 0, 1, 0}}) < 0.1);  // 0.5 from each
}

TEST_CASE("moved_blocks_do_not_hold_what_lies_beyond_or_beside") {
  const std::vector<std::vector<double>> one = {{0, 1, 0, 0}};
  CHECK(off({1.3, -0.3, 0, 0}, one) > 0.29);
  CHECK(off({-0.3, 1.3, 0, 0}, one) > 0.29);
  CHECK(off({0.5, 0.5, 0, 0.2}, one) > 0.19);
  CHECK(off({0, 0, 0, 0}, {{1, 0, 0, 0}, {1, 0, 0, 0}}) == 1);  // nothing to divide by
  CHECK(off({1, 0, 0, 2}, {{1, 0, 0, HUGE_VAL}}) == 2);
}
