// SPDX-License-Identifier: Apache-2.0
// Locks on files that other users cannot open. The kernel releases them when the process ends.
#include "core/judge/device_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <set>

#include "core/base/text.hpp"
#include "core/device/rank_device.hpp"

namespace fk {

namespace {

constexpr int kTurnPollUs = 5000;  // us

// A descriptor of the lock file; -1: it cannot be opened.
int lock_of(const std::string& what) {
  std::string name = "fk-host-" + std::to_string(::geteuid()) + "-" + what.substr(0, 100);
  for (char& c : name)
    if (c == '/' || c == ':' || c == ',') c = '-';
  std::error_code none;
  const auto path = std::filesystem::temp_directory_path(none) / (name + ".lock");
  return ::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
}

bool locked(int fd, int how = LOCK_EX) {
  while (::flock(fd, how | LOCK_NB) != 0)
    if (errno != EINTR) return errno != EWOULDBLOCK;
  return true;
}

// The machine-wide names of the devices, without the CPU.
std::set<std::string> names_of(const std::vector<std::string>& devices) {
  std::set<std::string> out;
  for (const auto& device : devices) {
    if (device == "cpu") continue;
    const std::string known = name_on_machine(device);
    out.insert(known.empty() ? device : device.substr(0, device.find(':')) + "-" + known);
  }
  return out;
}

struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

// All processes take the locks in the order of names, so that no ring of waits arises. Each needs a
// place in the queue first. Otherwise a process that returns its lock and takes it again would
// always be first.
DeviceLock::DeviceLock(const std::vector<std::string>& devices, const std::function<void()>& waits,
                       Use use) {
  const auto take = [&](int fd, int how) {
    for (; !locked(fd, how); ::usleep(kTurnPollUs))
      if (waits) waits();
  };
  try {
    for (const auto& name : names_of(devices)) {
      const Descriptor queue{lock_of(name + "-next")};
      take(queue.fd, LOCK_EX);
      fds_.push_back(lock_of(name));
      take(fds_.back(), use == Use::measures ? LOCK_EX : LOCK_SH);
    }
  } catch (...) {
    for (const int fd : fds_) ::close(fd);
    throw;
  }
}

std::unique_ptr<DeviceLock> DeviceLock::if_free(const std::vector<std::string>& devices) {
  std::unique_ptr<DeviceLock> out(new DeviceLock);
  for (const auto& name : names_of(devices)) {
    const Descriptor queue{lock_of(name + "-next")};
    out->fds_.push_back(lock_of(name));
    if (!locked(queue.fd) || !locked(out->fds_.back())) return nullptr;
  }
  return out;
}

DeviceLock::~DeviceLock() {
  for (const int fd : fds_)
    if (fd >= 0) ::close(fd);
}

}  // namespace fk
