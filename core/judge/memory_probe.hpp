// SPDX-License-Identifier: Apache-2.0
// Some bytes in devices' memory as they are at one moment, whatever runs there, because copy
// engines read them; and whether they have changed since.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "core/device/device.hpp"

namespace fk {

class MemoryProbes {
 public:
  static constexpr size_t kBytes = 64, kMost = 8;  // of one at most; of them
  // Takes the memory that it needs, of this device, before the first is added.
  void reserve(Device& device) { memory_ = HostMemory(device, 2 * kMost * kBytes); }
  // Reads `at`, at most kBytes of the device's memory: enqueued, so that all that are added are
  // read within microseconds. Not more than kMost. The device outlives this.
  void add(Device& device, std::span<const std::byte> at);
  // Whether any of them is something else now; all that was enqueued is done when it returns.
  bool changed() const;
  void clear() { all_.clear(); }

 private:
  struct MemoryProbe {
    Device* device;
    std::span<const std::byte> at;
  };
  std::byte* place(size_t peek, bool now) const {
    return memory_.data() + (2 * peek + now) * kBytes;
  }
  std::vector<MemoryProbe> all_;
  HostMemory memory_;  // what each was and what it is now
};

}  // namespace fk
