// SPDX-License-Identifier: Apache-2.0
// Address ranges in which only a few parts have memory. A kernel that touches another address gets
// an error of the device.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "core/device/device.hpp"

namespace fk::cuda {

class Parted {
 public:
  // Maps memory of the device for these parts, each in whole units. Null when memory is short.
  void* map(int device, int64_t bytes, std::span<const HeldPart> parts);
  // Waits for the device. False if the memory was not mapped here.
  bool unmap(void* memory);

 private:
  struct Range {
    size_t size = 0;
    std::vector<std::pair<CUdeviceptr, size_t>> mapped;  // address and bytes
  };
  std::map<CUdeviceptr, Range> ranges_;
};

}  // namespace fk::cuda
