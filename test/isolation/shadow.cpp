// SPDX-License-Identifier: Apache-2.0
// Two devices that are the CPU under other names: a host that has them treats them as it treats a
// GPU, which goes on while processes are stopped. Whether somebody's work goes on there is a lock
// on the file FK_SHADOW_WORK, which a process has until it ends.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "core/device/device.hpp"
#include "core/referee/stopped_work.hpp"
#include "core/worker/task.hpp"

namespace fk {
namespace {

// FK_SHADOW_LOOKS, where it is there: after so many looks nobody works any more.
Json wait(const Json&, const TaskServices&) {
  const char* const file = std::getenv("FK_SHADOW_WORK");
  const char* const most = std::getenv("FK_SHADOW_LOOKS");
  static int looks = 0;
  const int fd = file ? ::open(file, O_RDWR | O_CLOEXEC) : -1;
  bool works = fd >= 0 && ::flock(fd, LOCK_EX | LOCK_NB) != 0;
  if (fd >= 0) ::close(fd);
  if (most && ++looks > std::atoi(most)) works = false;
  return {{"seconds", works ? 5e-3 : 20e-6}};
}

// The program has a task of this name, which asks a device that is none of these.
std::unique_ptr<Device> open(const std::string&) {
  static const TaskRegistration instead(kIdleTask, wait);
  return open_device("cpu");
}

FK_DEVICE_KIND(shadow, {[] {
                          return std::vector<std::string>{"shadow:0", "shadow:1"};
                        },
                        open, [] { return std::string(); }});

}  // namespace
}  // namespace fk
