// SPDX-License-Identifier: Apache-2.0
// Keeps the inputs of a step. Small inputs share the first block. A copy of the content on the
// device shows which bytes have changed and must be uploaded.
#include "core/exec/input_memory.hpp"

#include <algorithm>
#include <cstring>

namespace fk {

namespace {

// Parts above kTogether have a block and an upload of their own. Parts above kLookedAt are uploaded
// without a comparison. For smaller parts a comparison is faster than an upload.
constexpr int64_t kTogether = int64_t{1} << 18, kLookedAt = int64_t{1} << 20;

int64_t aligned(int64_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

InputMemory::InputMemory(Device& device, const std::vector<Part>& parts) : device_(device) {
  int64_t small = 0;
  for (const Part& part : parts)
    if (part.bytes <= kTogether) {
      places_.push_back({part.name, 0, small});
      small += aligned(part.bytes);
    } else {
      places_.push_back({part.name, 0, -1});
    }
  add_block(small, "the inputs");
  for (size_t i = 0; i < parts.size(); ++i) {
    if (places_[i].offset >= 0) continue;
    places_[i] = {parts[i].name, blocks_.size(), 0};
    add_block(parts[i].bytes, "the input " + parts[i].name);
  }
}

void InputMemory::add_block(int64_t bytes, const std::string& purpose) {
  Block& block = blocks_.emplace_back();
  block.host = HostMemory(device_, bytes);
  std::memset(block.host.data(), 0, static_cast<size_t>(bytes));
  if (device_.host_memory()) return;
  block.device = DeviceMemory(device_, bytes, purpose);
  device_.fill_zero(block.device.data(), bytes);
  if (blocks_.size() == 1 || bytes <= kLookedAt) block.sent.resize(static_cast<size_t>(bytes));
}

int InputMemory::find(const std::string& name) const {
  const auto it = std::find_if(places_.begin(), places_.end(),
                               [&](const Place& place) { return place.name == name; });
  return it == places_.end() ? -1 : static_cast<int>(it - places_.begin());
}

std::byte* InputMemory::host(int part) const {
  const Place& place = places_[static_cast<size_t>(part)];
  return blocks_[place.block].host.data() + place.offset;
}

std::byte* InputMemory::device(int part) const {
  if (device_.host_memory()) return host(part);
  const Place& place = places_[static_cast<size_t>(part)];
  return blocks_[place.block].device.data() + place.offset;
}

void InputMemory::upload(const std::vector<int64_t>& bytes) {
  int64_t begin = 0, end = 0;  // range of changed bytes in the small parts
  for (size_t i = 0; i < places_.size(); ++i) {
    Place& place = places_[i];
    Block& block = blocks_[place.block];
    const std::byte* data = block.host.data() + place.offset;
    const auto size = static_cast<size_t>(bytes[i]);
    if (size == 0) continue;
    if (!block.sent.empty()) {
      std::byte* sent = block.sent.data() + place.offset;
      if (place.known && std::memcmp(sent, data, size) == 0) continue;
      place.known = true;
      if (place.block > 0) std::memcpy(sent, data, size);
    }
    if (place.block > 0) {
      device_.upload_later(block.device.data(), data, bytes[i]);
    } else {
      if (end == 0) begin = place.offset;
      end = place.offset + bytes[i];
    }
  }
  if (end == 0) return;
  Block& block = blocks_[0];
  const auto size = static_cast<size_t>(end - begin);
  std::memcpy(block.sent.data() + begin, block.host.data() + begin, size);
  device_.upload_later(block.device.data() + begin, block.host.data() + begin, end - begin);
}

}  // namespace fk
