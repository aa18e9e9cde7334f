// SPDX-License-Identifier: Apache-2.0
#include "core/base/spent.hpp"

#include <chrono>
#include <thread>

#include "test/catch.hpp"

using namespace fk;

TEST_CASE("spent_adds_up_by_name_in_the_order_of_beginning") {
  const auto pass = [] { std::this_thread::sleep_for(std::chrono::milliseconds(4)); };
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  Spent spent;
  spent.enter("values");
  pass();
  spent.enter("timing");
  pass();
  spent.enter("values");
  pass();
  spent.enter("");
  pass();  // nobody's
  spent.enter("timing");
  spent.enter("");
  const double all_s = std::chrono::duration<double>(Clock::now() - begin).count();
  REQUIRE(spent.all().size() == 2);
  CHECK(spent.all()[0].first == "values");
  CHECK(spent.all()[1].first == "timing");
  CHECK(spent.all()[0].second >= 0.008);
  CHECK(spent.all()[1].second >= 0.004);
  CHECK(spent.all()[0].second + spent.all()[1].second <= all_s - 0.004);
}
