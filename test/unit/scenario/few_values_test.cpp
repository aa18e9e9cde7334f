// SPDX-License-Identifier: Apache-2.0
#include "core/scenario/few_values.hpp"

#include "test/catch.hpp"

using namespace fk;

namespace {
double share_of(const std::vector<double>& values) {
  const Tensor want = Tensor::of(DType::f32, {static_cast<int64_t>(values.size())}, values);
  return share_of_few(compare(want, want), want);
}
}  // namespace

TEST_CASE("few values which lie close together are measured by their size") {
  CHECK(share_of({1.0, 1.0 + 1.0 / 64}) == Approx(1.0 / 128).epsilon(0.02));
}

TEST_CASE("few values around zero are measured by their spread") {
  CHECK(share_of({1, -1}) == Approx(1));
  CHECK(share_of({0, 0}) == Approx(1));
}

TEST_CASE("many values are measured by their spread") {
  CHECK(share_of({8, 8.1, 8, 8.1, 8, 8.1, 8, 8.1}) == 1);
}
