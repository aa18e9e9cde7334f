// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/api.hpp"

#include <stdexcept>

namespace fk_opencl {

namespace {
// The statuses which a caller meets; others are shown as their number.
std::string name_of(cl_int status) {
  switch (status) {
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
      return "CL_MEM_OBJECT_ALLOCATION_FAILURE";
    case CL_OUT_OF_RESOURCES:
      return "CL_OUT_OF_RESOURCES";
    case CL_OUT_OF_HOST_MEMORY:
      return "CL_OUT_OF_HOST_MEMORY";
    case CL_BUILD_PROGRAM_FAILURE:
      return "CL_BUILD_PROGRAM_FAILURE";
    case CL_INVALID_VALUE:
      return "CL_INVALID_VALUE";
    case CL_INVALID_DEVICE:
      return "CL_INVALID_DEVICE";
    case CL_INVALID_OPERATION:
      return "CL_INVALID_OPERATION";
    case CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST:
      return "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST";
    default:
      return "OpenCL status " + std::to_string(status);
  }
}
}  // namespace

void check(cl_int status, const std::string& what) {
  if (status != CL_SUCCESS) throw std::runtime_error(what + ": " + name_of(status));
}

std::string text_of(cl_device_id device, cl_device_info key) {
  size_t size = 0;
  check(clGetDeviceInfo(device, key, 0, nullptr, &size), "cannot read a property");
  std::string text(size, '\0');
  check(clGetDeviceInfo(device, key, size, text.data(), nullptr), "cannot read a property");
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

}  // namespace fk_opencl
