// SPDX-License-Identifier: Apache-2.0
#include "core/cli/wait_for_device.hpp"

#include <cstdio>
#include <utility>

namespace fk {

std::unique_ptr<DeviceLock> wait_for_device(const std::vector<std::string>& devices,
                                            DeviceLock::Use use) {
  bool told = false;
  return std::make_unique<DeviceLock>(
      devices,
      [&] {
        if (!std::exchange(told, true))
          std::fprintf(stderr, "fk-host: waiting for another fk-host process on the device\n");
      },
      use);
}

}  // namespace fk
