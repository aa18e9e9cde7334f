// SPDX-License-Identifier: Apache-2.0
// A command's turn on the devices that it uses; it says so once when it has to wait for it.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/judge/device_lock.hpp"

namespace fk {

std::unique_ptr<DeviceLock> wait_for_device(const std::vector<std::string>& devices,
                                            DeviceLock::Use use);

}  // namespace fk
