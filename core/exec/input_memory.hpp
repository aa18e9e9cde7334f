// SPDX-License-Identifier: Apache-2.0
// What a step reads that the host writes: tokens, positions, tables. Small inputs lie side by side,
// so that whatever changed of them from one step to the next is one upload.
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
  // Zeroed. On a device with host memory what the host writes is what ops read.
  InputMemory(Device& device, const std::vector<Part>& parts);

  size_t size() const { return places_.size(); }
  // The place of a part in `parts`; -1 where there is none.
  int find(const std::string& name) const;
  // Where the host writes, valid as long as this object.
  std::byte* host(int part) const;
  // Where ops read.
  std::byte* device(int part) const;

  // Enqueues uploads of what the device does not have yet of the first `bytes[i]` bytes of every
  // part i. What the host wrote must stay until they are done (Device::wait_for_uploads).
  void upload(const std::vector<int64_t>& bytes);
  // The device's part has been written to by something else since its upload.
  void overwritten(int part) { places_[static_cast<size_t>(part)].known = false; }

 private:
  struct Block {
    HostMemory host;
    DeviceMemory device;
    std::vector<std::byte> sent;  // what the device has; empty where it is not looked at
  };
  struct Place {
    std::string name;
    size_t block;
    int64_t offset;
    bool known = true;  // the device has what `sent` says
  };
  void add_block(int64_t bytes, const std::string& purpose);

  Device& device_;
  std::vector<Block> blocks_;  // the first one of the small parts, then one for each large part
  std::vector<Place> places_;
};

}  // namespace fk
