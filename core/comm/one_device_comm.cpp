// SPDX-License-Identifier: Apache-2.0
// Symmetric buffers for ranks that are threads with one device. Each rank allocates its own, and
// finds the others' in a common list.
#include "core/comm/one_device_comm.hpp"

#include "core/base/error.hpp"
#include "core/comm/views.hpp"

namespace fk {

OneDeviceCommunicator::OneDeviceCommunicator(OneDevice& common, SharedCommunicator& host)
    : common_(common), host_(host), turn_(common.turn_, std::defer_lock) {
  make_table();
}

void OneDeviceCommunicator::none(const char* call) {
  fail("ranks", std::string(call) + ": this communicator has symmetric buffers and barriers alone");
}

std::vector<std::byte*> OneDeviceCommunicator::take_symmetric(int64_t bytes) {
  const size_t number = taken_++, ranks = static_cast<size_t>(size());
  if (common_.buffers_.size() == number) common_.buffers_.emplace_back(ranks);
  Device& device = common_.device_;
  DeviceMemory mine(device, kPadBytes + bytes, "symmetric buffers");
  device.fill_zero(mine.data(), mine.bytes());
  common_.buffers_[number][static_cast<size_t>(rank())] = std::move(mine);
  waiting([&] { meeting().meet(CommCall::of("symmetric", 0, bytes)); });
  std::vector<std::byte*> out;
  for (const DeviceMemory& one : common_.buffers_[number]) out.push_back(one.data());
  return out;
}

}  // namespace fk
