// SPDX-License-Identifier: Apache-2.0
// Which of several ranks a run is ended for, and how soon, where the others say nothing because
// their devices wait for it.
#include <algorithm>
#include <cstdlib>

#include "core/base/clock.hpp"
#include "core/base/text.hpp"
#include "core/worker/rank_group.hpp"
#include "test/catch.hpp"

using namespace fk;

namespace {

enum class Work { task, questions, drive };
constexpr Work kAll[] = {Work::task, Work::questions, Work::drive};

struct Told {
  RunnerFailure failure;
  double seconds = 0;
};

// Options for ranks that do what `script` says (hostile.cpp).
Runner::Options hostile(const std::string& script, double patience_s) {
  ::setenv("FK_HOSTILE", ("ranks:" + script).c_str(), 1);
  Runner::Options options;
  options.executable = FK_HOSTILE_RUNNER;
  options.patience_s = patience_s;
  return options;
}

int ranks_in(const std::string& script) {
  return 1 + static_cast<int>(std::count(script.begin(), script.end(), ','));
}

// The failure that the ranks report, and after how long.
Told told(Work work, const std::string& script, double patience_s) {
  RankGroup ranks(hostile(script, patience_s), ranks_in(script));
  INFO((ranks.failed() ? ranks.failure().text : "it has begun"));
  REQUIRE_FALSE(ranks.failed());
  const double start = now_seconds();
  if (work == Work::task) ranks.task_on_all("any", Json::object(), [](int, const Json&) {});
  if (work == Work::questions) ranks.ask_all("any", Json::object());
  if (work == Work::drive && ranks.begin(false))
    while (!ranks.failed() && now_seconds() < start + 20) ranks.wait(1);
  REQUIRE(ranks.failed());
  return {ranks.failure(), now_seconds() - start};
}

}  // namespace

TEST_CASE("missing_rank_that_died_is_told_though_others_wait_on_their_devices") {
  for (const Work work : kAll) {
    const Told t = told(work, "silent 0,dies 100,silent 0", 30);
    CAPTURE(static_cast<int>(work), t.failure.text);
    CHECK(t.failure.kind == "crashed");
    CHECK(starts_with(t.failure.text, "rank 1: crashed: SIGKILL"));
    CHECK(t.seconds < 5);
  }
}

TEST_CASE("missing_rank_that_lost_its_device_at_once_is_at_fault_itself") {
  for (const Work work : kAll) {
    const Told t = told(work, "silent 0,lost 100", 30);
    CAPTURE(static_cast<int>(work));
    CHECK(t.failure.kind == "lost");
    CHECK(t.failure.sentence() == "rank 1: the device failed, in all_reduce (x) or before it");
    CHECK(t.seconds < 5);
  }
}

// Kernels that wait for another rank end their context when it does not come. A candidate that
// writes into the socket of its worker ends this worker, not the host.
TEST_CASE("missing_rank_that_tells_nonsense_ends_itself_alone") {
  for (const char* script : {"tells 0,answers 0", "answers 0,tells 0"}) {
    for (const bool heard : {false, true}) {
      RankGroup ranks(hostile(script, 5), ranks_in(script));
      REQUIRE_FALSE(ranks.failed());
      RankGroup::OnProgress read;
      if (heard) read = [](int, const Json& row) { (void)row.at("status"); };
      CHECK_FALSE(ranks.task_on_all("any", Json::object(), read));
      CAPTURE(script, heard, ranks.failure().text);
      CHECK(ranks.failure().kind == "protocol");
      CHECK_THAT(ranks.failure().text,
                 ContainsSubstring(heard ? "cannot use at()" : "a message without a request"));
    }
  }
}

TEST_CASE("missing_rank_is_who_did_not_come_to_devices_that_waited") {
  for (const Work work : kAll) {
    const Told two = told(work, "lost 500,silent 0", 1);
    CAPTURE(static_cast<int>(work), two.failure.text);
    CHECK(two.failure.kind == "hang");
    CHECK(starts_with(two.failure.text,
                      "rank 1: its device did not come to where that of rank 0 waited for it"));
    CHECK_THAT(two.failure.text, ContainsSubstring(" long: the device failed"));
    const Told last = told(work, "lost 1000,lost 1300,silent 0", 2);
    CAPTURE(last.failure.text);
    CHECK(starts_with(last.failure.text,
                      "rank 2: its device did not come to where that of rank 0 waited for it"));
  }
}

TEST_CASE("missing_rank_cannot_be_told_from_who_waits_longer_than_anybody_has_patience") {
  for (const Work work : kAll) {
    const Told all = told(work, "silent 0,silent 0,silent 0", 1);
    CAPTURE(static_cast<int>(work), all.failure.text);
    CHECK(all.failure.kind == "hang");
    CHECK_THAT(all.failure.text, ContainsSubstring("gave no sign of life"));
    for (const char* rank : {"rank 0", "rank 1", "rank 2"})
      CHECK_THAT(all.failure.text, ContainsSubstring(rank));
    const Told one = told(work, "answers 0,silent 0", 1);
    CAPTURE(one.failure.text);
    CHECK(starts_with(one.failure.text, "rank 1: gave no sign of life"));
    CHECK_THAT(one.failure.text, !ContainsSubstring("rank 0"));
  }
}

TEST_CASE("missing_rank_that_others_tell_of_is_told_by_the_first_of_them") {
  const Told t = told(Work::task, "misses 600,misses 100,answers 0", 5);
  CHECK(starts_with(t.failure.text, "rank 1: another did not come to all_reduce"));
}
