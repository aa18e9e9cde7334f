// SPDX-License-Identifier: Apache-2.0
// HIP's runtime, with errors as exceptions.
#pragma once
#ifndef __HIP_PLATFORM_AMD__
#define __HIP_PLATFORM_AMD__
#endif
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wall"
#pragma GCC diagnostic ignored "-Wextra"
#include <hip/hip_runtime_api.h>
#pragma GCC diagnostic pop

#include <stdexcept>
#include <string>

namespace fk_hip {

// std::runtime_error with `what` and HIP's words unless the status is hipSuccess.
inline void check(hipError_t status, const char* what) {
  if (status == hipSuccess) return;
  (void)hipGetLastError();  // the next call must not report it again
  throw std::runtime_error(std::string(what) + ": " + hipGetErrorString(status));
}

}  // namespace fk_hip
