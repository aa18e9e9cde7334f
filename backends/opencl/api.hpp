// SPDX-License-Identifier: Apache-2.0
// The calls of OpenCL 3.0, with errors as exceptions.
#pragma once
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include <string>

namespace fk_opencl {

// std::runtime_error with `what` and the name of the status unless it is CL_SUCCESS.
void check(cl_int status, const std::string& what);

template <class T>
T info(cl_device_id device, cl_device_info key) {
  T value{};
  check(clGetDeviceInfo(device, key, sizeof value, &value, nullptr), "cannot read a property");
  return value;
}
std::string text_of(cl_device_id device, cl_device_info key);

}  // namespace fk_opencl
