// SPDX-License-Identifier: Apache-2.0
// Exchanges of any size, in steps. A block sends its part of a step to the boxes of the others, and
// tells them by a number. It takes arriving data while the next step is in flight. Every block has
// boxes and numbers of its own. Numbers rise from call to call, so captured calls need nothing from
// the host.
//
// A box has room for four steps. Step s + 1 is sent before step s is taken, and after step s - 1
// was taken. So data of a rank for step s says that the rank has taken step s - 2. The room of step
// s - 3, which step s + 1 uses, is then free.
#pragma once
#include "../parts/op.cuh"
#include "../parts/peer.cuh"
#include "ranks.cuh"

namespace fkc {

struct Boxes {
  static constexpr int kBlocks = 264, kDepth = 4;  // two on a multiprocessor: one sends while the other waits
  static constexpr int64_t kStep = int64_t{64} << 10;  // of all ranks together, in one box of one block
  static constexpr int64_t kHead = int64_t{64} << 10;
  static int64_t room(int ranks) { return kStep / ranks / 256 * 256; }  // bytes of a rank in a step
  // Numbers of a block: one per rank and box, and the number of its steps.
  static constexpr int kNumbers = 2 * kMostRanks + 16;
  static int64_t bytes(int) { return kHead + 2 * kBlocks * kDepth * kStep; }
};
static_assert(Boxes::kBlocks * Boxes::kNumbers * 4 <= Boxes::kHead, "the numbers fit");

// A block's view. Box 0 holds data of others for this rank, box 1 data of others for all.
class Steps {
 public:
  __device__ explicit Steps(const Ranks& ranks) : ranks_(ranks), done_(numbers(ranks.rank) + 2 * kMostRanks), first_(*done_) {}
  __device__ uint32_t first() const { return first_; }
  __device__ void finish(uint32_t steps) const {
    __syncthreads();
    if (threadIdx.x == 0) *done_ = first_ + steps;
  }
  // The room for data from `from` to `owner` at a step.
  template <class Word> __device__ Word* room(int owner, int box, uint32_t step, int from) const {
    const int64_t at = (int64_t(blockIdx.x) * 2 + box) * Boxes::kDepth + (first_ + step) % Boxes::kDepth;
    return reinterpret_cast<Word*>(ranks_.at[owner] + Boxes::kHead + at * Boxes::kStep + from * (Boxes::kStep / ranks_.size / 256 * 256));
  }
  // Tells all other ranks that the data of this block for this step has arrived.
  __device__ void tell(int box, uint32_t step) const {
    __syncthreads();
    const int to = int(threadIdx.x);
    if (to >= ranks_.size || to == ranks_.rank) return;
    store_release(numbers(to) + box * kMostRanks + ranks_.rank, first_ + step + 1);
  }
  // Waits until all other ranks have told.
  __device__ void wait(int box, uint32_t step) const {
    const int from = int(threadIdx.x);
    if (from < ranks_.size && from != ranks_.rank) wait_until(numbers(ranks_.rank) + box * kMostRanks + from, first_ + step + 1);
    __syncthreads();
  }

 private:
  __device__ uint32_t* numbers(int of) const { return reinterpret_cast<uint32_t*>(ranks_.at[of]) + blockIdx.x * Boxes::kNumbers; }
  const Ranks& ranks_;
  uint32_t* done_;
  uint32_t first_;
};

// The words of this block, out of `total`, at a step of `tile` words. Blocks take tiles in turn.
struct Tile {
  int64_t begin, count;
  __device__ Tile(uint32_t step, int tile, int64_t total) {
    begin = (int64_t(step) * gridDim.x + blockIdx.x) * tile;
    count = total - begin < 0 ? 0 : total - begin < tile ? total - begin : tile;
  }
};

// The division of a call of `total` words: first all blocks get work, then tiles grow up to the
// room.
struct Cut {
  int tile, blocks;
  unsigned steps;
  Cut(int64_t total, int64_t room_words) {
    const int64_t even = cdiv(cdiv(total, Boxes::kBlocks), 32) * 32;
    tile = int(std::clamp<int64_t>(even, 128, room_words));
    blocks = int(std::clamp<int64_t>(cdiv(total, tile), 1, Boxes::kBlocks));
    steps = unsigned(cdiv(total, int64_t(tile) * blocks));
  }
};

// The largest word which divides all sizes: 16, 4, 2 or 1 bytes.
inline int word_bytes(std::initializer_list<int64_t> sizes) {
  int64_t all = 16;
  for (const int64_t size : sizes) all |= size;
  return all % 16 == 0 ? 16 : all % 4 == 0 ? 4 : all % 2 == 0 ? 2 : 1;
}
inline int64_t address(const void* p) { return int64_t(reinterpret_cast<uintptr_t>(p)); }

}  // namespace fkc
