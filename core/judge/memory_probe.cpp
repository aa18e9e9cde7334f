// SPDX-License-Identifier: Apache-2.0
#include "core/judge/memory_probe.hpp"

#include <algorithm>
#include <cstring>

#include "core/base/error.hpp"

namespace fk {

void MemoryProbes::add(Device& device, std::span<const std::byte> at) {
  FK_CHECK(memory_.data() && all_.size() < kMost && at.size() <= kBytes,
           "reserved, so many bytes, and so many times");
  device.download_later(place(all_.size(), false), at.data(), static_cast<int64_t>(at.size()));
  all_.push_back({&device, at});
}

bool MemoryProbes::changed() const {
  for (size_t i = 0; i < all_.size(); ++i)
    all_[i].device->download_later(place(i, true), all_[i].at.data(),
                                   static_cast<int64_t>(all_[i].at.size()));
  for (const MemoryProbe& peek : all_) peek.device->synchronize();
  for (size_t i = 0; i < all_.size(); ++i)
    if (std::memcmp(place(i, false), place(i, true), all_[i].at.size()) != 0) return true;
  return false;
}

}  // namespace fk
