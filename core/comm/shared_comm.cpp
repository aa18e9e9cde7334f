// SPDX-License-Identifier: Apache-2.0
// Collectives through shared memory. A rank writes a piece of its data into its stage, meets the
// other ranks, and reads their pieces. A stage has two halves, and the next piece goes to the other
// half, so one meeting per piece is enough. A rank that writes piece n + 2 has met all ranks after
// they read piece n.
#include "core/comm/shared_comm.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/text.hpp"
#include "core/comm/reduce.hpp"
#include "core/comm/views.hpp"

namespace fk {

namespace {

// the board, in whole pages
constexpr size_t kHeadBytes = (sizeof(MeetingBoard) + 4095) / 4096 * 4096;

// The size of a rank's part of a block: both halves of its stage, then its symmetric buffers.
size_t rank_bytes(const SharedMemory& memory, int size) {
  return (memory.bytes() - kHeadBytes) / static_cast<size_t>(size) / 4096 * 4096;
}

DType view_dtype(const fk_in& view) { return from_dlpack({view.dtype.code, view.dtype.bits}); }

void copy_bytes(std::byte* to, const std::byte* from, int64_t bytes) {
  if (bytes) std::memcpy(to, from, static_cast<size_t>(bytes));
}

}  // namespace

size_t shared_comm_bytes(int size, size_t heap) {
  return kHeadBytes + static_cast<size_t>(size) * (2 * kStageBytes + heap);
}

SharedMemory make_shared_comm(int size) {
  return SharedMemory::create("fk-ranks", shared_comm_bytes(size));
}

MeetingBoard& meeting_board(const SharedMemory& memory) {
  return *static_cast<MeetingBoard*>(memory.data());
}

std::byte* meeting_stage(const SharedMemory& memory, int size, int rank, uint64_t number) {
  return static_cast<std::byte*>(memory.data()) + kHeadBytes +
         static_cast<size_t>(rank) * rank_bytes(memory, size) + (number % 2) * kStageBytes;
}

SharedCommunicator::SharedCommunicator(SharedMemory memory, int rank, int size, double patience_s)
    : SharedCommunicator(std::make_shared<SharedMemory>(std::move(memory)), rank, size,
                         patience_s) {}

SharedCommunicator::SharedCommunicator(std::shared_ptr<SharedMemory> memory, int rank, int size,
                                       double patience_s)
    : memory_(std::move(memory)),
      meeting_(meeting_board(*memory_), rank, size, patience_s),
      apart_(meeting_board(*memory_).apart.load(std::memory_order_acquire) != 0) {
  FK_CHECK(memory_->bytes() >= shared_comm_bytes(size, 0), "a block for all ranks");
  make_table();
}

std::byte* SharedCommunicator::heap(int rank) const { return stage(rank, 0) + 2 * kStageBytes; }

template <class Body>
void SharedCommunicator::exchange(CommCall call, const std::byte* from, int parts, int64_t bytes,
                                  int64_t width, const Body& body) {
  const int64_t room = static_cast<int64_t>(kStageBytes) / parts / width * width;
  // A call without data is still a meeting of all ranks.
  for (int64_t at = 0; at == 0 || at < bytes; at += room) {
    const int64_t here = std::min(room, bytes - at);
    const uint64_t number = meeting_.count() + 1;
    std::byte* to = stage(meeting_.rank(), number);
    for (int p = 0; p < parts; ++p) copy_bytes(to + p * here, from + p * bytes + at, here);
    call.staged = parts * here;
    meeting_.meet(call);
    body(at, here, number);
  }
}

void SharedCommunicator::all_reduce(const fk_in& x, const fk_out& out, int64_t op, void*) {
  const int64_t bytes = part_bytes(x, out, 1, 1), width = x.dtype.bits / 8;
  std::vector<const std::byte*> pieces(static_cast<size_t>(meeting_.size()));
  exchange(call_of("all_reduce", x, op), data_of(x), 1, bytes, width,
           [&](int64_t at, int64_t here, uint64_t number) {
             for (int r = 0; r < meeting_.size(); ++r)
               pieces[static_cast<size_t>(r)] = stage(r, number);
             reduce_ranks(pieces, data_of(out) + at, view_dtype(x), here / width, op);
           });
}

void SharedCommunicator::all_gather(const fk_in& x, const fk_out& out, void*) {
  const int64_t bytes = part_bytes(x, out, 1, meeting_.size());
  exchange(call_of("all_gather", x), data_of(x), 1, bytes, 1,
           [&](int64_t at, int64_t here, uint64_t number) {
             for (int r = 0; r < meeting_.size(); ++r)
               copy_bytes(data_of(out) + r * bytes + at, stage(r, number), here);
           });
}

void SharedCommunicator::reduce_scatter(const fk_in& x, const fk_out& out, int64_t op, void*) {
  const int64_t bytes = part_bytes(x, out, meeting_.size(), 1), width = x.dtype.bits / 8;
  std::vector<const std::byte*> pieces(static_cast<size_t>(meeting_.size()));
  exchange(call_of("reduce_scatter", x, op), data_of(x), meeting_.size(), bytes, width,
           [&](int64_t at, int64_t here, uint64_t number) {
             for (int r = 0; r < meeting_.size(); ++r)
               pieces[static_cast<size_t>(r)] = stage(r, number) + meeting_.rank() * here;
             reduce_ranks(pieces, data_of(out) + at, view_dtype(x), here / width, op);
           });
}

void SharedCommunicator::all_to_all(const fk_in& x, const fk_out& out, void*) {
  const int64_t bytes = part_bytes(x, out, meeting_.size(), meeting_.size());
  exchange(call_of("all_to_all", x), data_of(x), meeting_.size(), bytes, 1,
           [&](int64_t at, int64_t here, uint64_t number) {
             for (int r = 0; r < meeting_.size(); ++r)
               copy_bytes(data_of(out) + r * bytes + at, stage(r, number) + meeting_.rank() * here,
                          here);
           });
}

std::vector<std::byte*> SharedCommunicator::take_symmetric(int64_t bytes) {
  const int64_t whole = (bytes + 255) / 256 * 256 + kPadBytes;
  if (heap_used_ + whole >
      static_cast<int64_t>(rank_bytes(*memory_, meeting_.size()) - 2 * kStageBytes))
    fail("ranks", "there is no room for a symmetric buffer of " + human_bytes(bytes));
  meeting_.meet(CommCall::of("symmetric", 0, bytes));
  std::vector<std::byte*> out;
  for (int r = 0; r < meeting_.size(); ++r) out.push_back(heap(r) + heap_used_);
  heap_used_ += whole;
  return out;
}

void SharedCommunicator::settle() {
  meeting_.settle();
  std::memset(heap(meeting_.rank()), 0, static_cast<size_t>(heap_used_));
  heap_used_ = 0;
  forget_symmetric();
  // A new buffer must not be used before its owner has cleared it.
  meeting_.meet(CommCall::of("settle", 0, 0));
}

}  // namespace fk
