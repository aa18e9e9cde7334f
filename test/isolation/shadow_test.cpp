// SPDX-License-Identifier: Apache-2.0
// Whole runs on a device that goes on while processes are stopped (shadow.cpp). The tests show
// whose work that is, and that others wait for their turn on it.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include <atomic>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "core/base/clock.hpp"
#include "core/base/json.hpp"
#include "core/judge/device_lock.hpp"
#include "test/folder.hpp"
#include "test/shell.hpp"

namespace {

using fk::Json;

struct Shadow {
  Folder folder;
  std::string work = folder.path / "work";
  Shadow() { std::ofstream(work).put('\n'); }

  std::string command(const std::string& candidate, const std::string& more = "") const {
    return "TMPDIR=" + folder.path.string() + " FK_SHADOW_WORK=" + work + " " + more +
           " FK_CANDIDATES=" FK_ISOLATION "/" + candidate +
           " timeout 100 " FK_SHADOW_HOST
           " run smoke --profile tiny --device shadow:0 --no-sandbox --patience 5 --json -";
  }
  Json judged(const std::string& candidate, const std::string& more = "") const {
    const Shell out = shell(command(candidate, more));
    CAPTURE(out.text);
    const Json report = fk::parse_json(out.text, "report");
    REQUIRE(report.at("error") == "");
    REQUIRE(report.at("candidates").size() == 1);
    return report.at("candidates")[0];
  }
};

}  // namespace

TEST_CASE("shadow_work_of_a_stopped_candidate_is_a_violation") {
  const Shadow shadow;
  const Json row = shadow.judged("works_on");
  CAPTURE(row.dump());
  CHECK(row.at("verdict") == "violation");
  CHECK_THAT(row.at("why").get<std::string>(),
             ContainsSubstring(
                 "the device does work for it during the baseline's turn: a second process"));
  CHECK(row.at("workloads").empty());  // nothing is timed beside it
  CHECK(shadow.judged("right").at("verdict") == "correct");
}

// It is ended to see whose work it is, and started again.
TEST_CASE("shadow_work_of_somebody_else_is_no_violation") {
  const Shadow shadow;
  const Json alone = shadow.judged("right");
  const int fd = ::open(shadow.work.c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(::flock(fd, LOCK_EX) == 0);
  const Json row = shadow.judged("right");
  ::close(fd);
  CAPTURE(row.dump());
  CHECK(row.at("verdict") == "correct");
  REQUIRE(row.at("workloads").size() == alone.at("workloads").size());
  for (size_t i = 0; i < alone.at("workloads").size(); ++i)
    CHECK(row.at("workloads")[i].at("rounds") == alone.at("workloads")[i].at("rounds"));
}

// Work that is over by the time of the last look does not disturb the next process.
TEST_CASE("shadow_work_that_is_soon_over_is_no_violation") {
  const Shadow shadow;
  CHECK(shadow.judged("works_on", "FK_SHADOW_LOOKS=3").at("verdict") == "correct");
  CHECK(shadow.judged("works_on", "FK_SHADOW_LOOKS=40").at("verdict") == "violation");
}

TEST_CASE("shadow_runs_take_turns") {
  const Shadow shadow;
  ::setenv("TMPDIR", shadow.folder.path.c_str(), 1);
  auto turn = std::make_unique<fk::DeviceLock>(std::vector<std::string>{"shadow:0"});
  ::unsetenv("TMPDIR");
  std::atomic<int> given = 0;
  Shell out;
  std::thread run([&] {
    out = shell(shadow.command("right") + " 2>&1 >" + (shadow.folder.path / "report").string());
    if (given == 0) given = -1;
  });
  // Longer than a run takes, and than the progress line is silent.
  std::this_thread::sleep_for(std::chrono::seconds(8));
  CHECK(given == 0);
  given = 1;
  turn.reset();
  run.join();
  CAPTURE(out.text);
  CHECK(out.code == 0);
  CHECK_THAT(out.text, ContainsSubstring("smoke: waiting for others on the device"));
}
