// SPDX-License-Identifier: Apache-2.0
// A worker that was taken over can neither crash the controller, nor make it wait beyond its
// patience, nor pass nonsense on.
#include <cstdlib>
#include <tuple>
#include <vector>

#include "core/base/clock.hpp"
#include "core/judge/case_run.hpp"
#include "core/judge/judge.hpp"
#include "core/measure/background_work.hpp"
#include "core/scenario/drive_round.hpp"
#include "core/worker/runner.hpp"
#include "test/catch.hpp"

using namespace fk;

namespace {

Runner::Options hostile(const std::string& mode) {
  ::setenv("FK_HOSTILE", mode.c_str(), 1);
  Runner::Options options;
  options.executable = FK_HOSTILE_RUNNER;
  options.patience_s = 0.5;
  options.open_patience_s = 0.5;
  options.payload_bytes_max = 1 << 20;
  return options;
}

SessionSpec any_spec() { return {"llama", Config(Json::object(), "test"), {}, {}, "cpu"}; }

// Opens and drives one request; the failure, which there must be within the time.
RunnerFailure drive(const std::string& mode) {
  RankGroup runner(hostile(mode), 1);
  REQUIRE_FALSE(runner.failed());
  const double start = now_seconds();
  Request request;
  request.id = 1;
  request.tokens = {1, 2, 3};
  request.new_tokens = 2;
  request.logits = true;
  RoundOptions options;
  options.vocab_size = 16;
  options.time_limit_s = 1;
  Round round;
  CHECK_FALSE(drive_round(runner, {request}, options, round));
  REQUIRE(runner.failed());
  CHECK(now_seconds() - start < 5);
  return runner.failure();
}

}  // namespace

TEST_CASE("hostile_records_and_messages_are_refused") {
  for (const char* mode :
       {"ring_head", "huge_payload", "unknown_kind", "broker_kind", "unknown_id", "odd_logits",
        "far_logits", "bad_tensor", "json_garbage", "json_deep", "json_length", "json_types",
        "error_types", "early_done", "chatter", "many_ends"}) {
    const RunnerFailure failure = drive(mode);
    CAPTURE(mode, failure.text);
    CHECK(failure.kind == "protocol");
    CHECK_FALSE(failure.text.empty());
    for (const char c : failure.sentence()) CHECK(c >= 0x20);
  }
}

TEST_CASE("hostile_silence_and_noise_end_in_time") {
  for (const char* mode : {"silent", "endless_progress", "endless_output"}) {
    const RunnerFailure failure = drive(mode);
    CAPTURE(mode, failure.text);
    CHECK(failure.kind == "hang");
    CHECK(failure.log.size() < (70 << 10));
  }
  CHECK(drive("leaves").kind == "exited");
}

// A thread of a candidate that hangs could say as much for ever.
TEST_CASE("hostile_messages_that_say_nothing_are_no_sign_of_life") {
  RankGroup runner(hostile("chatter"), 1);
  const double start = now_seconds();
  CHECK_FALSE(runner.task_on_all("any", Json::object(), [](int, const Json&) {}));
  CHECK(now_seconds() - start < 5);
  REQUIRE(runner.failed());
  CHECK(runner.failure().kind == "protocol");
}

TEST_CASE("hostile_silence_is_a_crash_where_its_device_has_stopped_it") {
  Runner::Options options = hostile("silent");
  options.patience_s = 30;
  int asked = 0;
  options.stopped = [&] { return ++asked < 3 ? "" : "the driver has stopped it"; };
  RankGroup runner(options, 1);
  const double start = now_seconds();
  CHECK_FALSE(runner.ask_all("case_calls", Json::object()));
  CHECK(now_seconds() - start < 5);
  REQUIRE(runner.failed());
  CHECK(runner.failure().kind == "crashed");
  CHECK(runner.failure().text == "crashed: the driver has stopped it");
}

// As where a driver takes long to give back what a process had.
TEST_CASE("hostile_end_that_takes_long_is_not_waited_for") {
  for (const auto& [mode, kind, text] :
       {std::tuple("lingers", "crashed", "crashed: SIGSEGV at address 0x10 in a.so"),
        std::tuple("lingers_exit", "exited", "called exit(3) in a.so")}) {
    const double start = now_seconds();
    const RunnerFailure failure = drive(mode);
    CAPTURE(mode, failure.text);
    CHECK(failure.kind == kind);
    CHECK(failure.text == text);
    CHECK(now_seconds() - start < 0.4);  // of a patience of half a second
  }
}

TEST_CASE("hostile_loss_of_the_device_is_a_crash_and_ends_what_is_asked") {
  for (const bool lost : {false, true}) {
    RankGroup runners(hostile(lost ? "loses_device" : "keeps_device"), 1);
    CandidateClient client(runners, "a");
    CHECK_FALSE(client.run(0, 0, 1, now_seconds()));
    CHECK(client.lost() == lost);
    CaseVerdict row;
    blame(row, client);
    CHECK(row.status == (lost ? Status::crashed : Status::violation));
    CHECK(row.rule == (lost ? "" : "forward"));
    CHECK(row.why == "forward: the end");
  }
}

// As a process beside it sees the device, which it shares with one that stands still.
TEST_CASE("hostile_work_on_a_device_is_seen_while_its_process_stands_still") {
  const auto look = [](std::vector<double> waits, int looks, bool ended) {
    RankGroup runners(hostile("silent"), 1);
    REQUIRE(runners.freeze());
    size_t at = 0;
    const std::string found = works_while_stopped(
        runners, [&] { return waits.at(at++); }, looks);
    CHECK(at == waits.size());
    CHECK(runners.failed() == ended);
    return found;
  };
  CHECK(look({2e-5}, 4, false).empty());
  CHECK(look({2e-3, 2e-3, 2e-5}, 4, false).empty());  // which was over soon
  CHECK_THAT(look({2e-3, 3e-3, 2e-5}, 2, true),
             ContainsSubstring("waits 3.00 ms for next to nothing, and 20.0 us when it has ended"));
  CHECK(look({2e-3, 1e-3}, 1, true).empty());  // somebody else works there
}

TEST_CASE("hostile_ring_position_of_requests_is_refused") {
  Runner runner(hostile("ring_tail"));
  REQUIRE(runner.begin(false));
  Request request;
  request.id = 1;
  request.tokens.resize(1000);
  for (int i = 0; i < 1000 && !runner.failed(); ++i) {
    runner.submit(request);
    runner.wait(0.001);
  }
  REQUIRE(runner.failed());
  CHECK(runner.failure().kind == "protocol");
}

TEST_CASE("hostile_descriptions_are_refused") {
  const SharedMemory weights = SharedMemory::create("test", 256);
  for (const char* mode : {"session_types", "session_nodes"}) {
    Runner runner(hostile(mode));
    CHECK_FALSE(runner.open(any_spec(), {weights.fd(), 256, false}));
    CHECK(runner.failure().kind == "protocol");
  }
  Runner runner(hostile("load"));
  CHECK_FALSE(runner.load({{"x.so", Trust::candidate}}));
  CHECK(runner.failure().kind == "protocol");
}

TEST_CASE("hostile_executable_that_is_missing_is_an_environment_failure") {
  Runner::Options options;
  options.executable = "/nowhere/fk-host";
  Runner runner(options);
  REQUIRE(runner.failed());
  CHECK(runner.failure().kind == "environment");
}
