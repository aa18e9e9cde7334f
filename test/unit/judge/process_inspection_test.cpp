// SPDX-License-Identifier: Apache-2.0
// The host sees from outside all changes of a candidate to its process, on a GPU as on the CPU. It
// does not confuse them with changes by the driver.
#include "core/judge/process_inspection.hpp"

#include <signal.h>
#include <unistd.h>

#include "core/worker/sandbox.hpp"
#include "test/catch.hpp"

using namespace fk;

TEST_CASE("handlers that a process beside it has as well are the driver's") {
  SandboxPolicy::any_device_compiles();  // maps the backends' code into this process
  const pid_t own = ::getpid(), other = ::getppid();
  const ProcessInspection before = ProcessInspection::of(own);
  REQUIRE(before.handled);
  const auto found = [&](std::optional<pid_t> beside) {
    CaseVerdict row;
    row.status = Status::correct;
    look_at_process(own, before, "mine.so", beside, row);
    return row;
  };
  CHECK(found(std::nullopt).status == Status::correct);
  CHECK(found(other).status == Status::correct);
  struct sigaction action {
  }, old{};
  action.sa_handler = [](int) {};
  REQUIRE(::sigaction(SIGTRAP, &action, &old) == 0);
  const CaseVerdict on_cpu = found(std::nullopt), on_device = found(other), drivers = found(own);
  REQUIRE(::sigaction(SIGTRAP, &old, nullptr) == 0);
  for (const CaseVerdict& row : {on_cpu, on_device}) {
    CHECK(row.status == Status::violation);
    CHECK(row.rule == "state");
    CHECK(row.why == "it has put a handler of its own on SIGTRAP");
  }
  CHECK(drivers.status == Status::correct);
}
