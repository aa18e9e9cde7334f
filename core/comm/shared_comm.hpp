// SPDX-License-Identifier: Apache-2.0
// The communicator of the CPU: ranks are processes of one machine, and all that they exchange goes
// through one block of shared memory, which the broker makes and passes to each of them. Pages that
// nobody touches cost nothing. Of several machines each has such a block (block_mirror.hpp); then
// there are no symmetric buffers.
#pragma once
#include <memory>
#include <vector>

#include "core/base/io.hpp"
#include "core/comm/communicator.hpp"

namespace fk {

// Bytes of the block for so many ranks, each with so much for symmetric buffers.
inline constexpr size_t kHeapBytes = size_t{1} << 30;
inline constexpr size_t kStageBytes = size_t{1} << 18;  // of one half
size_t shared_comm_bytes(int size, size_t heap = kHeapBytes);
SharedMemory make_shared_comm(int size);
// The head of such a block, for the broker's fail_meeting().
MeetingBoard& meeting_board(const SharedMemory& memory);
// The part of it in which rank `rank` of `size` lays what it sends in meeting number `number`:
// kStageBytes.
std::byte* meeting_stage(const SharedMemory& memory, int size, int rank, uint64_t number);

class SharedCommunicator final : public Communicator {
 public:
  // `memory` is a block for `size` ranks, mapped writable; its size says how much there is for
  // symmetric buffers. `patience_s`: as in Meeting.
  SharedCommunicator(SharedMemory memory, int rank, int size, double patience_s);
  // The same for ranks that are threads of one process.
  SharedCommunicator(std::shared_ptr<SharedMemory> memory, int rank, int size, double patience_s);

  Meeting& meeting() override { return meeting_; }
  bool apart() const override { return apart_; }
  void settle() override;

 private:
  std::byte* stage(int rank, uint64_t number) const {
    return meeting_stage(*memory_, meeting_.size(), rank, number);
  }
  std::byte* heap(int rank) const;

  void all_reduce(const fk_in& x, const fk_out& out, int64_t op, void*) override;
  void all_gather(const fk_in& x, const fk_out& out, void*) override;
  void reduce_scatter(const fk_in& x, const fk_out& out, int64_t op, void*) override;
  void all_to_all(const fk_in& x, const fk_out& out, void*) override;
  void barrier(void*) override { meeting_.meet(CommCall::of("barrier", 0, 0)); }
  std::vector<std::byte*> take_symmetric(int64_t bytes) override;
  // Cuts `parts` parts of `bytes` each into pieces that fit into a stage, and calls body(first
  // byte, bytes, number of the meeting) for each after everybody has laid down its pieces.
  template <class Body>
  void exchange(CommCall call, const std::byte* from, int parts, int64_t bytes, int64_t width,
                const Body& body);

  const std::shared_ptr<SharedMemory> memory_;
  Meeting meeting_;
  const bool apart_;  // some ranks are on other machines
  int64_t heap_used_ = 0;
};

}  // namespace fk
