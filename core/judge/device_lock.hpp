// SPDX-License-Identifier: Apache-2.0
// A lock per device: concurrent jobs distort each other's times, and exhaust the device's memory.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace fk {

// Holds all of the named devices, among this user's processes on this machine, until it is
// destroyed. The constructor waits in a queue. The CPU needs no lock.
class DeviceLock {
 public:
  // Jobs with Use::computes compare answers without times, and share the lock.
  enum class Use { measures, computes };
  // `waits` is called repeatedly while another process holds a device. Its exceptions end the wait.
  explicit DeviceLock(const std::vector<std::string>& devices,
                      const std::function<void()>& waits = nullptr, Use use = Use::measures);
  // Null when another process holds a device or waits for it.
  static std::unique_ptr<DeviceLock> if_free(const std::vector<std::string>& devices);
  ~DeviceLock();
  DeviceLock(const DeviceLock&) = delete;

 private:
  DeviceLock() = default;
  std::vector<int> fds_;
};

}  // namespace fk
