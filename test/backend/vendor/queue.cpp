// SPDX-License-Identifier: Apache-2.0
#include "device.hpp"

FK_BACKEND_OF(vendor::Device, "queue", "1.0");
