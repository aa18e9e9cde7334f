// SPDX-License-Identifier: Apache-2.0
// Samples of some bytes of device memory at one moment, and a check for later changes. Copy engines
// read them, so running kernels do not delay them.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "core/device/device.hpp"

namespace fk {

class MemoryProbes {
 public:
  static constexpr size_t kBytes = 64, kMost = 8;  // bytes of one probe; number of probes
  // Allocates this device's host memory for probes; before the first add().
  void reserve(Device& device) { memory_ = HostMemory(device, 2 * kMost * kBytes); }
  // Enqueues a read of `at`, at most kBytes of device memory, so that all probes are read within
  // microseconds. At most kMost probes. The device outlives this object.
  void add(Device& device, std::span<const std::byte> at);
  // True when any probe's bytes differ now. Waits for all enqueued reads.
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
  HostMemory memory_;  // bytes at add() and bytes in changed(), by probe
};

}  // namespace fk
