// SPDX-License-Identifier: Apache-2.0
#include "core/comm/one_device_comm.hpp"

#include "core/base/error.hpp"
#include "core/comm/views.hpp"

namespace fk {

namespace {

[[noreturn]] void only_buffers(const char* call) {
  fail("ranks", std::string(call) + ": this communicator has symmetric buffers and barriers alone");
}

}  // namespace

OneDeviceCommunicator::OneDeviceCommunicator(OneDevice& common, SharedCommunicator& host)
    : common_(common), host_(host), turn_(common.turn_, std::defer_lock) {
  table_.struct_size = FK_END(fk_comm, error);
  table_.rank = rank();
  table_.size = size();
  table_.self = this;
  using Self = OneDeviceCommunicator;
  table_.all_reduce = [](const fk_comm* c, const fk_in*, const fk_out*, int64_t, void*) {
    return guarded(c, "all_reduce", [](Self&) { only_buffers("all_reduce"); });
  };
  table_.all_gather = [](const fk_comm* c, const fk_in*, const fk_out*, void*) {
    return guarded(c, "all_gather", [](Self&) { only_buffers("all_gather"); });
  };
  table_.reduce_scatter = [](const fk_comm* c, const fk_in*, const fk_out*, int64_t, void*) {
    return guarded(c, "reduce_scatter", [](Self&) { only_buffers("reduce_scatter"); });
  };
  table_.all_to_all = [](const fk_comm* c, const fk_in*, const fk_out*, void*) {
    return guarded(c, "all_to_all", [](Self&) { only_buffers("all_to_all"); });
  };
  table_.barrier = [](const fk_comm* c, void*) {
    return guarded(c, "barrier", [](Self& self) {
      self.waiting([&] { self.meeting().meet(CommCall::of("barrier", 0, 0)); });
    });
  };
  table_.symmetric = [](const fk_comm* c, int64_t bytes, const fk_symmetric** out) {
    return guarded(c, "symmetric", [&](Self& self) { *out = self.symmetric(bytes); });
  };
  table_.error = [](const fk_comm* c) { return static_cast<Self*>(c->self)->error_.c_str(); };
}

template <class Body>
int32_t OneDeviceCommunicator::guarded(const fk_comm* comm, const char* call, const Body& body) {
  auto& self = *static_cast<OneDeviceCommunicator*>(comm->self);
  return told_to_all(self.meeting(), self.error_, call, [&] { body(self); });
}

const fk_symmetric* OneDeviceCommunicator::symmetric(int64_t bytes) {
  if (bytes < 0) fail("ranks", "a symmetric buffer of " + std::to_string(bytes) + " bytes");
  const size_t number = symmetric_.size(), ranks = static_cast<size_t>(size());
  if (common_.buffers_.size() == number) common_.buffers_.emplace_back(ranks);
  Device& device = common_.device_;
  DeviceMemory mine(device, kPadBytes + bytes, "symmetric buffers");
  device.fill_zero(mine.data(), mine.bytes());
  common_.buffers_[number][static_cast<size_t>(rank())] = std::move(mine);
  waiting([&] { meeting().meet(CommCall::of("symmetric", 0, bytes)); });
  Symmetric& made = symmetric_.emplace_back();
  for (const DeviceMemory& one : common_.buffers_[number]) {
    made.buffers.push_back(one.data() + kPadBytes);
    made.signals.push_back(reinterpret_cast<uint32_t*>(one.data()));
  }
  made.view = {FK_END(fk_symmetric, signals), size(), bytes, made.buffers.data(),
               made.signals.data()};
  return &made.view;
}

}  // namespace fk
