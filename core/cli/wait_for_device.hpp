// SPDX-License-Identifier: Apache-2.0
// A command's lock on its devices. Prints one message when it has to wait.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/judge/device_lock.hpp"

namespace fk {

std::unique_ptr<DeviceLock> wait_for_device(const std::vector<std::string>& devices,
                                            DeviceLock::Use use);

}  // namespace fk
