// SPDX-License-Identifier: Apache-2.0
// What a device needs at least: a judge calls whatever is below impossible.
#include "core/referee/bench.hpp"
#include "test/catch.hpp"

namespace {

fk::Contract sums() {
  return fk::Contract::parse(
      "op: sums\nrevision: 1\nsummary: the ranks' x\naxes: {T: rows, C: width, NR: ranks}\n"
      "init:\n  - {name: comm, type: comm, axis: NR}\n"
      "forward:\n  - {name: x, role: in, shape: [T, C], dtype: float}\n"
      "  - {name: out, role: out, shape: [T, C], dtype: x}\n"
      "cost: {flops: T*C, bytes: 4*T*C, wire: 2*(NR-1)*T*C}\n"
      "tolerance: {numerics: elementwise}\ncases:\n  smoke:\n    - {NR: 3, T: 10, C: 100}\n",
      "sums.yaml", 1, "test");
}

}  // namespace

TEST_CASE("roofline_has_bytes_operations_and_the_link") {
  const auto c = sums();
  const auto resolved = fk::resolve(c, c.cases[0], {});
  fk::Peaks peaks;
  peaks.bytes_per_s = 1e6;
  peaks.flops_per_s[fk::DType::f32] = 1e6;
  CHECK(fk::roofline_s(peaks, resolved, 4000, 1000) == Approx(4e-3));
  CHECK(fk::roofline_s(peaks, resolved, 4000, 9000) == Approx(9e-3));
  peaks.link_bytes_per_s = 1e5;  // 4000 bytes from two other ranks
  CHECK(fk::roofline_s(peaks, resolved, 4000, 9000) == Approx(40e-3));
}
