// SPDX-License-Identifier: Apache-2.0
// Inputs of a step that the host writes: tokens, positions, tables. Small inputs are neighbours, so
// that all changes between two steps are one upload.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/device/device.hpp"

namespace fk {

class InputMemory {
 public:
  struct Part {
    std::string name;
    int64_t bytes;  // at most
  };
  // Zeroed. On a device with host memory, ops read the host's copy.
  InputMemory(Device& device, const std::vector<Part>& parts);

  size_t size() const { return places_.size(); }
  // Index of a part in `parts`; -1: none.
  int find(const std::string& name) const;
  // Memory for the host's writes. Valid as long as this object.
  std::byte* host(int part) const;
  // Memory that ops read.
  std::byte* device(int part) const;

  // Enqueues uploads of the first `bytes[i]` bytes of each part i, as far as the device lacks them.
  // The host's data must stay until they are done (Device::wait_for_uploads).
  void upload(const std::vector<int64_t>& bytes);
  // Call after other writes to the device's part since its upload.
  void overwritten(int part) { places_[static_cast<size_t>(part)].known = false; }

 private:
  struct Block {
    HostMemory host;
    DeviceMemory device;
    std::vector<std::byte> sent;  // copy of the device's content; empty: changes are not tracked
  };
  struct Place {
    std::string name;
    size_t block;
    int64_t offset;
    bool known = true;  // the device has the content of `sent`
  };
  void add_block(int64_t bytes, const std::string& purpose);

  Device& device_;
  std::vector<Block> blocks_;  // the first has the small parts; each large part has its own
  std::vector<Place> places_;
};

}  // namespace fk
