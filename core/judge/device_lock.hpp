// SPDX-License-Identifier: Apache-2.0
// Who measures on a device takes turns with others: who shares it with somebody measures both, and
// finds its memory gone where the other one's candidate takes all of it.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace fk {

// Of this user's processes on this machine, on all of the devices at once. Waits for its turn
// behind those who came before and gives it back when it ends; on the CPU, which many processes
// share anyhow, there are no turns.
class DeviceLock {
 public:
  // Who looks at answers alone is in nobody's way who does the same.
  enum class Use { measures, computes };
  // `waits` is called again and again while others have one of them; what it throws ends the
  // waiting.
  explicit DeviceLock(const std::vector<std::string>& devices,
                      const std::function<void()>& waits = nullptr, Use use = Use::measures);
  // Null where somebody else has one of them, or waits for it.
  static std::unique_ptr<DeviceLock> if_free(const std::vector<std::string>& devices);
  ~DeviceLock();
  DeviceLock(const DeviceLock&) = delete;

 private:
  DeviceLock() = default;
  std::vector<int> fds_;
};

}  // namespace fk
