// SPDX-License-Identifier: Apache-2.0
#include "core/worker/channel.hpp"
#include "core/base/clock.hpp"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "test/catch.hpp"

namespace {

double processor_s() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

}  // namespace

TEST_CASE("channel_waits_for_so_long_without_sleeping_and_then_asleep") {
  std::array<int, 2> pipe{};
  REQUIRE(::pipe2(pipe.data(), O_CLOEXEC) == 0);
  const double begin = fk::now_seconds(), worked = processor_s();
  CHECK_FALSE(fk::wait_readable(pipe[0], 0.05));
  CHECK(fk::now_seconds() - begin >= 0.05);
  const double asleep = processor_s() - worked;
  CHECK_FALSE(fk::wait_readable(pipe[0], 0, 0.05));
  CHECK(fk::now_seconds() - begin >= 0.1);
  CHECK(processor_s() - worked - asleep > 2 * asleep);
  std::thread writer([&] {
    ::usleep(2000);
    [[maybe_unused]] const ssize_t written = ::write(pipe[1], "x", 1);
  });
  CHECK(fk::wait_readable(pipe[0], 0, 60));  // ends with the first byte
  writer.join();
  CHECK(fk::now_seconds() - begin < 30);
  ::close(pipe[0]);
  ::close(pipe[1]);
}
