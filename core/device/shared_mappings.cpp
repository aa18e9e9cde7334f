// SPDX-License-Identifier: Apache-2.0
#include "core/device/shared_mappings.hpp"

#include <fcntl.h>

#include <algorithm>
#include <utility>

namespace fk {

Device::Shared SharedMappings::create(int64_t bytes, int64_t gaps, const std::string& purpose,
                                      Device::Sharing others) {
  auto memory =
      SharedMemory::create(purpose, static_cast<size_t>(std::max<int64_t>(bytes, 1)), gaps);
  if (others == Device::Sharing::read) memory.seal_future_writes();
  memory.seal_seals();
  Device::Shared shared{memory.data(), ::fcntl(memory.fd(), F_DUPFD_CLOEXEC, 0)};
  mapped_.push_back(std::move(memory));
  return shared;
}

void* SharedMappings::open(int fd, int64_t bytes, Device::Sharing mine) {
  mapped_.push_back(SharedMemory::from_fd(fd, static_cast<size_t>(std::max<int64_t>(bytes, 1)),
                                          mine == Device::Sharing::write));
  mapped_.back().drop_descriptor();  // plugins run beside it
  return mapped_.back().data();
}

void SharedMappings::close(void* data) {
  std::erase_if(mapped_, [&](const SharedMemory& memory) { return memory.data() == data; });
}

}  // namespace fk
