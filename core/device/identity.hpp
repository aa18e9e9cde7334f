// SPDX-License-Identifier: Apache-2.0
// The device of a verdict, for its key and its receipt.
#pragma once
#include <string>

#include "core/base/machine.hpp"

namespace fk {

// device_identity() for the CPU and CUDA. For a device of a backend: its name and its driver. The
// driver includes version and hash of the library, because a verdict depends on it.
DeviceIdentity identity_of_device(const std::string& device);

}  // namespace fk
