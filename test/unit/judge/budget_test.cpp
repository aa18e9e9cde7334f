// SPDX-License-Identifier: Apache-2.0
#include "core/judge/verdict/budget.hpp"

#include <chrono>
#include <limits>
#include <thread>

#include "core/base/error.hpp"
#include "test/catch.hpp"

using namespace fk;

TEST_CASE("a verdict ends when time is spent, or memory") {
  static constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
  CHECK_NOTHROW(Budget(0).need());
  CHECK_NOTHROW(Budget(1e6).need());
  CHECK_NOTHROW(Budget(0, 1).need());
  CHECK_THAT(message_of<Error>([] { Budget(0, kAll).need(); }),
             ContainsSubstring("of memory no more than"));
  const Budget spent(1e-3);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  CHECK_THAT(message_of<Error>([&] { spent.need(); }), ContainsSubstring("are spent"));
}

TEST_CASE("cases that a spent budget leaves are named, and those beside them are not") {
  std::vector<CaseVerdict> rows(4);
  for (CaseVerdict& row : rows) row.status = Status::environment;
  rows[1].why = "the oracle ended";
  rows[2].beside = true;
  rows[3].status = Status::correct;
  name_unreached(rows, "nothing is left");
  CHECK(rows[0].why == "not reached: nothing is left");
  CHECK(rows[1].why == "the oracle ended");
  CHECK(rows[2].why.empty());
  CHECK(rows[3].why.empty());
}
