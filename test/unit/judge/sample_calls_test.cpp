// SPDX-License-Identifier: Apache-2.0
// How many calls a sample has.
#include "core/judge/race/sample_calls.hpp"

#include "test/catch.hpp"

using namespace fk;

TEST_CASE("samples have as many calls on both sides where a call is a loop") {
  CHECK(calls_of_samples(1e-6, 1e-6, 9.95e-5, 200) == SampleCalls{100, 100});
  CHECK(calls_of_samples(1e-6, 3e-6, 9.95e-5, 200) == SampleCalls{100, 100});
  CHECK(calls_of_samples(3e-6, 1e-6, 1e-4, 60) == SampleCalls{60, 60});
  CHECK(calls_of_samples(1e-6, 1e-4, 1e-4, 200) == SampleCalls{20, 20});  // nobody waits for that
  CHECK(calls_of_samples(1, 2, 1e-4, 200) == SampleCalls{1, 1});
  CHECK(calls_of_samples(1, 1e-9, 1e-4, 0) == SampleCalls{1, 1});
}

TEST_CASE("samples on a device are as long on both sides unless calls are about as long") {
  CHECK(calls_as_long(1e-6, 1e-6, 1e-4, 95) == SampleCalls{95, 95});
  CHECK(calls_as_long(1e-6, 1.4e-6, 1e-4, 95) == SampleCalls{95, 95});
  CHECK(calls_as_long(1e-6, 2e-6, 1e-4, 95) == SampleCalls{95, 48});
  CHECK(calls_as_long(12e-6, 1e-6, 1e-4, 95) == SampleCalls{8, 95});
  CHECK(calls_as_long(1e-6, 1, 1e-4, 95) == SampleCalls{95, 1});
  CHECK(calls_as_long(1, 2, 1e-4, 95) == SampleCalls{1, 1});
}

TEST_CASE("samples are counted again where a call was not what it was believed to be") {
  // As believed, and nearly so.
  CHECK(are_as_long({95, 95}, 1e-6, 1e-6));
  CHECK(are_as_long({95, 95}, 1e-6, 1.7e-6));
  CHECK(are_as_long({95, 48}, 1e-6, 2e-6));
  CHECK(are_as_long({95, 63}, 1e-6, 1.35e-6));
  CHECK(are_as_long({95, 11}, 1.7e-6, 17e-6));
  CHECK(are_as_long({2, 1}, 1e-6, 1e-6));  // there is nothing between
  CHECK(are_as_long({95, 1}, 1e-6, 1));
  CHECK(are_as_long({95, 95}, 0, 1e-6));
  // A candidate which seems slow, or quick, before the race.
  CHECK_FALSE(are_as_long({48, 95}, 1e-6, 1e-6));
  CHECK_FALSE(are_as_long({95, 10}, 1e-6, 1e-6));
  CHECK_FALSE(are_as_long({95, 95}, 1e-6, 2e-6));
  CHECK_FALSE(are_as_long({95, 63}, 1e-6, 1.1e-6));
  // Counts made from the race's times fit these times.
  for (const double ratio : {0.01, 0.2, 0.6, 0.9, 1.0, 1.3, 1.49, 1.51, 1.8, 3.0, 50.0})
    CHECK(are_as_long(calls_as_long(1e-6, ratio * 1e-6, 2e-4, 95), 1e-6, ratio * 1e-6));
}
