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

DeviceTurn::DeviceTurn(const std::string& device) {
  if (device == "cpu") return;
  // What a number means depends on what is visible.
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  std::string name = "fk-host-" + std::to_string(::geteuid()) + "-" + device + "-" +
                     std::string(visible ? visible : "").substr(0, 100);
  for (char& c : name)
    if (c == '/' || c == ':' || c == ',') c = '-';
  std::error_code none;
  const auto path = std::filesystem::temp_directory_path(none) / (name + ".lock");
  fd_ = ::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
  while (fd_ >= 0 && ::flock(fd_, LOCK_EX) != 0 && errno == EINTR) continue;
}

DeviceTurn::~DeviceTurn() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace fk
