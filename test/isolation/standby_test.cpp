// SPDX-License-Identifier: Apache-2.0
// A worker that waits for a sign, and one that says that it is done before it answers (shadow.cpp).
#include <nlohmann/json.hpp>
#include <thread>

#include "core/base/clock.hpp"
#include "core/worker/rank_group.hpp"
#include "test/catch.hpp"

using namespace fk;

namespace {

Runner::Options shadow(double spin_s = 0) {
  Runner::Options options;
  options.executable = FK_SHADOW_HOST;
  options.patience_s = 10;
  options.spin_s = spin_s;
  return options;
}

void pause(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

}  // namespace

TEST_CASE("standby_waits_for_its_own_sign_and_begins_at_once") {
  Runner runner(shadow());
  for (const bool goes_on : {true, false, true}) {
    REQUIRE(runner.tell("stand_by", Json::object(), {}));
    pause(0.05);
    REQUIRE_FALSE(runner.heard());  // the sign before was for another one
    REQUIRE_FALSE(runner.failed());
    const double signed_s = now_seconds();
    runner.sign(goes_on);
    const auto answer = runner.answer();
    REQUIRE(answer);
    CHECK(answer->at("goes_on") == goes_on);
    CHECK(answer->at("time_s").get<double>() > signed_s);
    CHECK(answer->at("time_s").get<double>() < signed_s + 0.5);
  }
}

TEST_CASE("standby_is_no_silence_before_the_sign") {
  Runner::Options options = shadow();
  options.patience_s = 0.3;
  Runner runner(options);
  REQUIRE(runner.tell("stand_by", Json::object(), {}));
  pause(0.6);
  runner.sign(true);
  CHECK(runner.answer());
  CHECK_FALSE(runner.failed());
}

TEST_CASE("done_is_seen_before_the_answer_where_somebody_spins") {
  RankGroup ranks(shadow(5), 1);
  const auto asked = [&](bool says_so) {
    double done_s = 0;
    const auto answers =
        ranks.ask_all("done_early", {{"says_so", says_so}, {"us", 200'000}}, {}, [&] {
          if (done_s == 0) done_s = now_seconds();
        });
    REQUIRE(answers);
    REQUIRE(done_s > 0);
    ranks.thaw();
    return answers->at(0).at("time_s").get<double>() - done_s;
  };
  CHECK(asked(true) > 0.1);
  CHECK(asked(false) < 0);  // what the one before said is over; then the answer says so
  CHECK(asked(true) > 0.1);
}

TEST_CASE("done_is_said_by_the_answer_where_nobody_spins") {
  RankGroup ranks(shadow(), 1);
  int called = 0;
  REQUIRE(ranks.ask_all("done_early", {{"says_so", true}, {"us", 100'000}}, {}, [&] { ++called; }));
  CHECK(called == 1);
}
