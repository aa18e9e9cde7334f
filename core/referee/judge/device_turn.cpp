// SPDX-License-Identifier: Apache-2.0
// A lock on a file that nobody else can open; the kernel lets go of it when the process ends.
#include "core/referee/judge/device_turn.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

namespace fk {

namespace {

// The descriptor that keeps the lock; -1 where there can be none.
int locked(const std::string& what, int how) {
  // What a number means depends on what is visible.
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  std::string name = "fk-host-" + std::to_string(::geteuid()) + "-" + what + "-" +
                     std::string(visible ? visible : "").substr(0, 100);
  for (char& c : name)
    if (c == '/' || c == ':' || c == ',') c = '-';
  std::error_code none;
  const auto path = std::filesystem::temp_directory_path(none) / (name + ".lock");
  const int fd = ::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
  while (fd >= 0 && ::flock(fd, how) != 0 && errno == EINTR) continue;
  return fd;
}

}  // namespace

// Everybody takes the kind before the device, so that nobody waits in a ring.
DeviceTurn::DeviceTurn(const std::string& device, bool all) {
  if (device == "cpu") return;
  kind_ = locked(device.substr(0, device.find(':')) + "-all", all ? LOCK_EX : LOCK_SH);
  if (!all) fd_ = locked(device, LOCK_EX);
}

DeviceTurn::~DeviceTurn() {
  for (const int fd : {fd_, kind_})
    if (fd >= 0) ::close(fd);
}

}  // namespace fk
