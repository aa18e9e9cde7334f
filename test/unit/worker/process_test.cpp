// SPDX-License-Identifier: Apache-2.0
// A child that is stopped, goes on by itself, or cannot be stopped; what is seen of it from
// outside.
#include "core/worker/process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "test/catch.hpp"

using namespace fk;

namespace {

struct Shell {
  explicit Shell(const std::string& script, Environment environment = Environment::of_libraries)
      : nothing(::open("/dev/null", O_RDWR | O_CLOEXEC)),
        process("/bin/sh", {"-c", script}, nothing, nullptr, environment) {}
  ~Shell() { ::close(nothing); }
  int nothing;
  ChildProcess process;
};

constexpr const char* kBusy = "while :; do :; done";

}  // namespace

TEST_CASE("a stopped process stands still until it is told to go on") {
  Shell shell(kBusy);
  for (int i = 0; i < 20; ++i) {
    REQUIRE(shell.process.freeze());
    ::usleep(2000);
    REQUIRE(shell.process.freeze());  // it is looked at from now on
    ::usleep(1000);
    CHECK(shell.process.thaw());
  }
}

TEST_CASE("a process that works while it is stopped is noticed") {
  Shell shell(kBusy);
  bool noticed = false;
  for (int i = 0; i < 20 && !noticed; ++i) {
    REQUIRE(shell.process.freeze());
    ::usleep(5000);
    REQUIRE(shell.process.freeze());
    ::kill(shell.process.pid(), SIGCONT);  // as a timer of its own would
    ::usleep(20000);
    noticed = !shell.process.thaw();
  }
  CHECK(noticed);
}

// A candidate can print into a report all that it can read.
TEST_CASE("of a user's environment a runner has what libraries read alone") {
  const auto sees = [](const char* name, Environment environment = Environment::of_libraries) {
    ::setenv(name, "told", 1);
    Shell shell("test \"$" + std::string(name) + "\" = told", environment);
    const auto status = shell.process.wait(10);
    ::unsetenv(name);
    REQUIRE(status);
    return *status == 0;
  };
  for (const char* name : {"FK_TOLD", "CUDA_TOLD", "OMP_TOLD", "LD_TOLD"}) CHECK(sees(name));
  for (const char* name : {"MY_API_TOKEN", "CUSTOMER_KEY", "NVD_API_KEY", "USER_TOKEN", "TZ_KEY"})
    CHECK_FALSE(sees(name));
  CHECK(sees("MY_API_TOKEN", Environment::all));
}

TEST_CASE("the end of a process is no stop") {
  Shell shell("exit 3");
  REQUIRE(shell.process.wait(10));
  CHECK_FALSE(shell.process.freeze());
  CHECK(shell.process.thaw());
  CHECK_FALSE(handled_signals(-1));
}

TEST_CASE("handled signals are seen from outside") {
  const auto before = handled_signals(::getpid());
  REQUIRE(before);
  struct sigaction action {
  }, old{};
  action.sa_handler = [](int) {};
  REQUIRE(::sigaction(SIGUSR2, &action, &old) == 0);
  const auto now = handled_signals(::getpid());
  ::sigaction(SIGUSR2, &old, nullptr);
  REQUIRE(now);
  CHECK((*now & ~*before) == uint64_t{1} << (SIGUSR2 - 1));
}

TEST_CASE("own processes are this one and those that it has started") {
  Shell shell(kBusy);
  CHECK(is_own_process(shell.process.pid()));
  CHECK(is_own_process(::getpid()));
  CHECK_FALSE(is_own_process(::getppid()));
  CHECK_FALSE(is_own_process(1));
  CHECK_FALSE(is_own_process(0));
}
