// SPDX-License-Identifier: Apache-2.0
// The communicator of the CPU. Ranks are processes of one machine and exchange all data through one
// block of shared memory. The block has the meeting's board, and for each rank a stage and a heap
// for symmetric buffers. The controller makes the block and passes it to each rank. Untouched pages
// take no memory. With several machines each has such a block (block_mirror.hpp), and there are no
// symmetric buffers.
#pragma once
#include <memory>
#include <vector>

#include "core/base/io.hpp"
#include "core/comm/communicator.hpp"

namespace fk {

// Bytes of the block for `size` ranks, each with `heap` bytes for symmetric buffers.
inline constexpr size_t kHeapBytes = size_t{1} << 30;
inline constexpr size_t kStageBytes = size_t{1} << 18;  // of one half of a rank's stage
size_t shared_comm_bytes(int size, size_t heap = kHeapBytes);
SharedMemory make_shared_comm(int size);
// The head of such a block, for the controller's fail_meeting().
MeetingBoard& meeting_board(const SharedMemory& memory);
// The kStageBytes in which rank `rank` of `size` writes its data for meeting `number`.
std::byte* meeting_stage(const SharedMemory& memory, int size, int rank, uint64_t number);

class SharedCommunicator final : public Communicator {
 public:
  // `memory` is a block for `size` ranks, mapped writable. Its size determines the room for
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
  // Cuts `parts` parts of `bytes` each into pieces that fit into a stage. For each piece it calls
  // body(first byte, bytes, number of the meeting) after all ranks have written theirs.
  template <class Body>
  void exchange(CommCall call, const std::byte* from, int parts, int64_t bytes, int64_t width,
                const Body& body);

  const std::shared_ptr<SharedMemory> memory_;
  Meeting meeting_;
  const bool apart_;  // some ranks are on other machines
  int64_t heap_used_ = 0;
};

}  // namespace fk
