// SPDX-License-Identifier: Apache-2.0
// Types of device: numbers of the ABI, and the words of messages.
#pragma once
#include <cstdint>
#include <string>

#include "fk/opencl.h"
#include "fk/tensor.h"

namespace fk {

// "the CPU", "CUDA devices"; empty for a number which is no type.
inline std::string devices_of_type(int32_t type) {
  switch (type) {
    case FK_CPU: return "the CPU";
    case FK_CUDA: return "CUDA devices";
    case FK_OPENCL: return "OpenCL devices";
    default: return "";
  }
}

}  // namespace fk
