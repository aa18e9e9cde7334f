// SPDX-License-Identifier: Apache-2.0
// Shared memory of a device whose kernels access the host's address space: files in memory, mapped
// in each process. The CPU device uses it, and OpenCL devices which read such mappings.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/io.hpp"
#include "core/device/device.hpp"

namespace fk {

class SharedMappings {
 public:
  // Device::allocate_with_gaps(), open_shared() and close_shared(), without waiting for a stream.
  Device::Shared create(int64_t bytes, int64_t gaps, const std::string& purpose,
                        Device::Sharing others);
  void* open(int fd, int64_t bytes, Device::Sharing mine);
  void close(void* data);

 private:
  std::vector<SharedMemory> mapped_;
};

}  // namespace fk
