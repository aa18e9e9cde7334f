// SPDX-License-Identifier: Apache-2.0
// The communicator of ranks that are threads of one process and share a device and its stream. An
// oracle uses it to compute the answers of all ranks. One thread at a time runs, from enter() until
// it waits for the others, so the device and its users need no locks. Work enqueued before a
// barrier ends before work enqueued after it. It has only symmetric buffers and barriers, which
// oracles use; its collectives fail with this reason.
#pragma once
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "core/comm/communicator.hpp"
#include "core/comm/shared_comm.hpp"
#include "core/device/device.hpp"

namespace fk {

// State shared by the ranks. Outlives their communicators; its destructor releases the memory.
class OneDevice {
 public:
  explicit OneDevice(Device& device) : device_(device) {}
  OneDevice(const OneDevice&) = delete;

 private:
  friend class OneDeviceCommunicator;
  Device& device_;
  std::mutex turn_;
  std::deque<std::vector<DeviceMemory>> buffers_;  // by number of the call, then by rank
};

class OneDeviceCommunicator final : public Communicator {
 public:
  // `host`: the communicator of the same rank, for the meeting.
  OneDeviceCommunicator(OneDevice& common, SharedCommunicator& host);

  Meeting& meeting() override { return host_.meeting(); }
  // Buffers live as long as OneDevice; settle() does not release them.
  void settle() override {
    waiting([&] { meeting().settle(); });
  }
  // Begins and ends this thread's turn. Only the thread in turn uses the device.
  void enter() { turn_.lock(); }
  void leave() { turn_.unlock(); }

 private:
  // Runs `body` while other threads have their turn.
  template <class Body>
  void waiting(const Body& body) {
    struct Unlocked {
      std::unique_lock<std::mutex>& lock;
      explicit Unlocked(std::unique_lock<std::mutex>& l) : lock(l) { lock.unlock(); }
      ~Unlocked() { lock.lock(); }
    } const away(turn_);
    body();
  }
  void all_reduce(const fk_in&, const fk_out&, int64_t, void*) override { none("all_reduce"); }
  void all_gather(const fk_in&, const fk_out&, void*) override { none("all_gather"); }
  void reduce_scatter(const fk_in&, const fk_out&, int64_t, void*) override {
    none("reduce_scatter");
  }
  void all_to_all(const fk_in&, const fk_out&, void*) override { none("all_to_all"); }
  void barrier(void*) override {
    waiting([&] { meeting().meet(CommCall::of("barrier", 0, 0)); });
  }
  std::vector<std::byte*> take_symmetric(int64_t bytes) override;
  [[noreturn]] static void none(const char* call);

  OneDevice& common_;
  SharedCommunicator& host_;
  std::unique_lock<std::mutex> turn_;
  size_t taken_ = 0;  // number of buffers
};

}  // namespace fk
