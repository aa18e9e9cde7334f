// SPDX-License-Identifier: Apache-2.0
// Types of device: numbers of the ABI, and the words of messages.
#pragma once
#include <cstdint>
#include <string>

#include "core/device/backends.hpp"
#include "fk/opencl.h"

namespace fk {

// "the CPU", "CUDA devices", or the words of a backend; empty for a number which is no type here.
inline std::string devices_of_type(int32_t type) {
  if (type == FK_CPU) return "the CPU";
  if (type == FK_CUDA) return "CUDA devices";
  for (const Backend& backend : backends())
    if (backend.usable() && backend.table.device_type == type) return backend.table.type_words;
  return type == FK_OPENCL ? "OpenCL devices" : "";  // a provider without its backend does no harm
}

}  // namespace fk
