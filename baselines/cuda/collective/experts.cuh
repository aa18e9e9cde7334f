// SPDX-License-Identifier: Apache-2.0
// Shared by kernels which send tokens to the ranks of their experts, and answers back: the layout
// of a rank's memory, and the messages. Message numbers rise from call to call. A number with data
// says that the data has arrived. Other numbers say that data was taken, and that its memory is
// free.
#pragma once
#include "../parts/op.cuh"
#include "../parts/peer.cuh"
#include "ranks.cuh"

namespace fkc::experts {

constexpr int kThreads = 256, kWarps = kThreads / 32;  // of the kernels which only copy
constexpr unsigned kAll = 0xffffffffu;                 // all lanes of a warp

// At the head of a rank's own buffer.
struct State {
  uint32_t sent[kMostRanks], answered[kMostRanks],
      taken[kMostRanks];    // numbers of calls, by rank
  uint32_t call;            // the number of the call which this rank has sent
  uint32_t blocks[2];       // blocks which have sent, or taken
  uint32_t pushed, sorted;  // blocks, or segments, since the first call
  uint32_t pieces[4];       // pieces of this call which blocks have taken, by kind
};
// Behind it stands the number of the last call of each block. Then, by rank and part of a token or
// group of tokens: the number of the call whose rows have arrived. These have the same place in
// every buffer, as instances share buffers of the same size.
constexpr int kBlocksMost = 2048, kGroup = 4, kTokensMost = 32768, kParts = 4, kFew = 512,
              kChosenMost = 32;
constexpr int64_t kNumbersAt = 256, kArrivedAt = kNumbersAt + kBlocksMost * 4,
                  kHead = kArrivedAt + int64_t{kMostRanks} * kTokensMost * kParts * 4;
static_assert(sizeof(State) <= kNumbersAt, "the state fits");

__device__ inline State* state_of(const Ranks& ranks, int rank) {
  return reinterpret_cast<State*>(ranks.at[rank]);
}
// Every launch on a buffer has as many blocks, and each counts its calls.
__device__ inline uint32_t* number_of(const Ranks& ranks) {
  return reinterpret_cast<uint32_t*>(ranks.at[ranks.rank] + kNumbersAt) + blockIdx.x;
}
__device__ inline uint32_t next_call(const Ranks& ranks) {
  return *static_cast<volatile uint32_t*>(number_of(ranks)) + 1;
}
__device__ inline void end_call(const Ranks& ranks, uint32_t call) {
  __syncthreads();
  if (threadIdx.x == 0) *number_of(ranks) = call;
}

// Waits until the numbers of all ranks have reached `number`.
__device__ inline void wait_for_all(const Ranks& ranks, const uint32_t* numbers, uint32_t number) {
  if (int(threadIdx.x) < ranks.size) wait_until(numbers + threadIdx.x, number);
  __syncthreads();
}
// True in the threads of the last block which comes here. This block sees the writes of all blocks.
__device__ inline bool last_block(uint32_t* blocks) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence_system();
    last = atomicAdd(blocks, 1u) + 1 == gridDim.x;
    if (last) *blocks = 0;
    __threadfence_system();
  }
  __syncthreads();
  return last;
}
// The same for some of the blocks. Their arrivals are counted from call to call. `all`: the number
// of the last arrival of this call.
__device__ inline bool last_to_come(uint32_t* arrivals, uint32_t all) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence_system();
    last = atomicAdd(arrivals, 1u) + 1 == all;
    __threadfence_system();
  }
  __syncthreads();
  return last;
}
// Counts an arrival of this block.
__device__ inline void arrive(uint32_t* arrivals) {
  __syncthreads();
  if (threadIdx.x != 0) return;
  __threadfence();
  atomicAdd(arrivals, 1u);
}
__device__ inline void tell_all(const Ranks& ranks, uint32_t (State::*what)[kMostRanks],
                                uint32_t number) {
  const int r = int(threadIdx.x);
  if (r >= ranks.size) return;
  __threadfence_system();
  store_release((state_of(ranks, r)->*what) + ranks.rank, number);
}

struct Shape {
  int words, experts, local, top_k, most;  // words: of a row. most: tokens of a rank
  int stride, group;  // stride: choices of a rank's table. group: tokens of a message
  int64_t tokens_at, table_at, places_at, rows_at, answers_at, row_bytes;  // offsets in a rank's buffer
  int64_t tables,
      boxes;  // bytes of a set which calls use in turn: tables; boxes, or 0 for a single set
  __device__ int rank_of(int expert) const { return expert / local; }
  // A rank which has ended a call knows that all ranks are done with the call before. That call's
  // tables and boxes are those of the next call.
  __device__ void turn_to(uint32_t call) {
    const int64_t odd = call % 2;
    tokens_at += odd * tables, table_at += odd * tables, rows_at += odd * boxes;
  }
};

// The number of tokens of each rank, and a word for each of their choices.
__device__ inline int32_t* tokens_of(const Ranks& ranks, const Shape& s, int owner) {
  return reinterpret_cast<int32_t*>(ranks.at[owner] + s.tokens_at);
}
__device__ inline int32_t* table_of(const Ranks& ranks, const Shape& s, int owner, int from) {
  return reinterpret_cast<int32_t*>(ranks.at[owner] + s.table_at) + int64_t(from) * s.stride;
}
// The rows of the choices of another rank's tokens.
__device__ inline int32_t* places_of(const Ranks& ranks, const Shape& s, int from) {
  return reinterpret_cast<int32_t*>(ranks.at[ranks.rank] + s.places_at) + int64_t(from) * s.stride;
}
// The box of a token's row in flight.
template <class Word>
__device__ Word* box_of(const Ranks& ranks, const Shape& s, int owner, int from, int token) {
  return reinterpret_cast<Word*>(ranks.at[owner] + s.rows_at +
                                 (int64_t(from) * s.most + token) * s.row_bytes);
}
__device__ inline uint32_t* arrived(const Ranks& ranks, int owner, int from, int i) {
  return reinterpret_cast<uint32_t*>(ranks.at[owner] + kArrivedAt) +
         from * (kTokensMost * kParts) + i;
}
__device__ inline unsigned ranks_of_token(const Shape& s, const int32_t* choices) {
  unsigned wanted = 0;
  for (int k = 0; k < s.top_k; ++k)
    if (choices[k] >= 0 && choices[k] < s.experts) wanted |= 1u << s.rank_of(choices[k]);
  return wanted;
}

// Sends the part of `block` among `blocks` of this rank's table to all ranks. `words`: a word for
// each choice.
__device__ inline void push_table(const int32_t* words, int tokens, int block, int blocks,
                                  const Shape& s, const Ranks& ranks) {
  if (block == 0 && int(threadIdx.x) < ranks.size)
    tokens_of(ranks, s, int(threadIdx.x))[ranks.rank] = tokens;
#pragma unroll 4
  for (int i = block * kThreads + int(threadIdx.x); i < tokens * s.top_k; i += blocks * kThreads) {
    const int32_t word = words[i];
    for (int r = 0; r < ranks.size; ++r) table_of(ranks, s, r, ranks.rank)[i] = word;
  }
}

inline int64_t whole(int64_t bytes) { return cdiv(bytes, 256) * 256; }

// Rows of words. A row has `boxed` bytes in a box.
template <class Init>
Shape shape_of(const Init& init, int64_t element, int64_t boxed, int word) {
  const int64_t ranks = init.comm->size, row = init.hidden_size * element;
  Shape s{};
  s.words = int(row / word);
  s.experts = int(init.num_experts);
  s.local = int(cdiv(init.num_experts, ranks));
  s.top_k = int(init.top_k);
  s.most = int(init.max_tokens_per_rank);
  s.stride = int(cdiv(init.max_tokens_per_rank * init.top_k, 4) * 4);
  s.group = s.most <= kFew ? 1 : kGroup;
  s.row_bytes = cdiv(boxed, 16) * 16;
  s.tables = whole(kMostRanks * 4) + whole(ranks * s.stride * 4);
  s.tokens_at = kHead;
  s.table_at = s.tokens_at + whole(kMostRanks * 4);
  s.places_at = s.tokens_at + 3 * s.tables;  // three sets for few tokens; many tokens use two
  s.rows_at = s.answers_at = s.places_at + whole(ranks * s.stride * 4);
  return s;
}

// The memory of an op's exchanges. Instances of one shape share it. The state of ranks between two
// calls has a meaning for one shape only.
template <class Op>
class Exchange {
 public:
  Exchange(const typename Op::init& init, int64_t element, int64_t boxed, bool boxes_twice)
      : element_(element), boxed_(boxed) {
    const Shape s = shape_of(init, element, boxed, 16);
    const int64_t boxes = whole(int64_t(init.comm->size) * s.most * s.row_bytes);
    if (boxes_twice) boxes_ = boxes;
    shared_.emplace(init.comm, s.rows_at + boxes + boxes_,
                    std::vector<int64_t>{s.most, s.stride, s.row_bytes, s.local});
  }
  Shape shape(const typename Op::init& init, int word) const {
    Shape s = shape_of(init, element_, boxed_, word);
    s.boxes = boxes_;
    return s;
  }
  const Ranks& ranks() const { return shared_->ranks(); }

 private:
  std::optional<Shared<Op>> shared_;
  int64_t element_, boxed_, boxes_ = 0;
};
// The common base of dispatch and combine.
template <class Op>
struct Exchanging : Base<Op> {
  using Base<Op>::Base;
  static void supports(const typename Op::init& init, const typename Op::weights&,
                       const typename Op::forward& max, fk_need&) {
    need_ranks(init.comm);
    need_floats(max.x);
    need(init.top_k <= kChosenMost, "top_k: up to 32");
    need(init.max_tokens_per_rank <= kTokensMost, "max_tokens_per_rank: up to 32768");
    const int64_t choices = init.max_tokens_per_rank * init.comm->size * init.top_k;
    need(init.num_experts > 0 && choices < int64_t{1} << 30, "fewer choices than 2^30 only");
  }

 protected:
  // From prepare() of an op.
  void share(int64_t element, int64_t boxed, bool boxes_twice) {
    exchange.emplace(this->init, element, boxed, boxes_twice);
    processors = sm_count();
  }
  std::optional<Exchange<Op>> exchange;
  int processors = 0;
};
inline unsigned blocks_for(int64_t rows) { return unsigned(std::clamp<int64_t>(rows, 1, 132 * 4)); }

}  // namespace fkc::experts
