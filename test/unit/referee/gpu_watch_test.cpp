// SPDX-License-Identifier: Apache-2.0
// What is made of a GPU's clocks and of the driver's reasons for them. There is no GPU here: looks
// are made up.
#include "core/referee/judge/gpu_watch.hpp"

#include "test/catch.hpp"

using namespace fk;

TEST_CASE("reasons of clocks have words, and unknown ones their number") {
  CHECK(throttle_reasons(0).empty());
  CHECK(throttle_reasons(0x4) == "power cap");
  CHECK(throttle_reasons(0x44) == "power cap, thermal (hardware)");
  CHECK(throttle_reasons(0x8000001) == "idle, reason 0x8000000");
  for (const uint64_t slows : {0x4, 0x8, 0x20, 0x40, 0x80}) CHECK(is_throttled(slows | 1));
  for (const uint64_t not_so : {0x0, 0x1, 0x2, 0x10, 0x100}) CHECK_FALSE(is_throttled(not_so));
}

TEST_CASE("looks at a GPU's clocks add up to their range and a share") {
  ClockWatch watch;
  add_look(watch, {1980, 3201, 0});
  add_look(watch, {1500, 3201, 0x4});
  add_look(watch, {1600, 2619, 0x24});
  add_look(watch, {1980, 3201, 0x1});
  CHECK(watch.looks == 4);
  CHECK(watch.sm_mhz_low == 1500);
  CHECK(watch.sm_mhz_high == 1980);
  CHECK(watch.memory_mhz_low == 2619);
  CHECK(watch.memory_mhz_high == 3201);
  CHECK(watch.throttled == 0.5);
  CHECK(watch.reasons == "power cap, thermal (software), idle");
}

TEST_CASE("the CPU has no clocks to be watched") { CHECK_FALSE(GpuWatch::of("cpu")); }
