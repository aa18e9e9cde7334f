// SPDX-License-Identifier: Apache-2.0
// The least time of a device. The judge calls shorter times impossible.
#include "core/check/bench.hpp"

#include "core/device/rank_device.hpp"
#include "test/catch.hpp"

namespace {

fk::Contract summed() {
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
  const auto c = summed();
  const auto resolved = fk::resolve(c, c.cases[0], {});
  fk::Peaks peaks;
  peaks.bytes_per_s = 1e6;
  peaks.flops_per_s[fk::DType::f32] = 1e6;
  CHECK(fk::roofline_s(peaks, resolved, {4000, 1000, 4000}) == Approx(4e-3));
  CHECK(fk::roofline_s(peaks, resolved, {4000, 9000, 4000}) == Approx(9e-3));
  peaks.link_bytes_per_s = 1e5;
  CHECK(fk::roofline_s(peaks, resolved, {4000, 9000, 4000}) == Approx(40e-3));
  CHECK(fk::roofline_s(peaks, resolved, {4000, 9000, 0}) == Approx(9e-3));
}

// Their exchange goes through memory, and the link's peak would condemn it.
TEST_CASE("ranks_that_share_a_device_have_no_link") {
  const auto c = summed();
  const auto resolved = fk::resolve(c, c.cases[0], {});
  const auto none = [](const fk::ResolvedCase&, const std::string&) { return fk::Tensor(); };
  CHECK(fk::wire_bytes(resolved, none) == 4000);
  const auto cpu = fk::open_device("cpu");
  CHECK(fk::wire_of_device(*cpu, resolved, none) == 0);
  CHECK(fk::ranks_share_devices("cpu", 2));
  CHECK_FALSE(fk::ranks_share_devices("cpu", 1));
}

TEST_CASE("devices_of_the_registry_have_links_that_are_slower_than_their_memory") {
  for (const char* name : {"NVIDIA H200", "NVIDIA H100 80GB HBM3"}) {
    const auto peaks = fk::peaks_of(name);
    REQUIRE(peaks);
    CHECK(peaks->link_bytes_per_s == 450e9);
    CHECK(peaks->link_bytes_per_s < peaks->bytes_per_s);
  }
}
