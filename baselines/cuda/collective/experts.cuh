// SPDX-License-Identifier: Apache-2.0
// What kernels share that pass tokens to the ranks of their experts, and answers back: what lies
// where in a rank's memory, and who tells whom. Numbers go on from call to call: those that come
// with what is sent say that it is there, others that what was sent has been taken and may be sent
// again.
#pragma once
#include "../parts/op.cuh"
#include "../parts/peer.cuh"
#include "ranks.cuh"

namespace fkc::experts {

constexpr int kThreads = 256, kWarps = kThreads / 32;  // of the kernels that only pass on
constexpr unsigned kAll = 0xffffffffu;                 // lanes

// At the head of a rank's own buffer.
struct State {
  uint32_t sent[kMostRanks], answered[kMostRanks],
      taken[kMostRanks];    // by rank: the number of a call
  uint32_t call;            // that has been sent here
  uint32_t blocks[2];       // that have sent, or taken
  uint32_t pushed, sorted;  // blocks, or segments, of all calls
  uint32_t pieces[4];       // of this call that have been given out, by kind
};
// Behind it, by block: the number of its last call. Then, by rank and part of a token or group of
// tokens: the number of the call whose rows have come. At the same place whatever else is in a
// buffer, as instances share those of the same size.
constexpr int kBlocksMost = 2048, kGroup = 4, kTokensMost = 32768, kParts = 4, kFew = 512,
              kChosenMost = 32;
constexpr int64_t kNumbersAt = 256, kArrivedAt = kNumbersAt + kBlocksMost * 4,
                  kHead = kArrivedAt + int64_t{kMostRanks} * kTokensMost * kParts * 4;
static_assert(sizeof(State) <= kNumbersAt, "the state fits");

__device__ inline State* state_of(const Ranks& ranks, int rank) {
  return reinterpret_cast<State*>(ranks.at[rank]);
}
// Every launch on a buffer has as many blocks, each of which counts its calls.
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

// Until all ranks have come as far as `number`.
__device__ inline void wait_for_all(const Ranks& ranks, const uint32_t* numbers, uint32_t number) {
  if (int(threadIdx.x) < ranks.size) wait_until(numbers + threadIdx.x, number);
  __syncthreads();
}
// What all blocks have done is seen by the last one to come here, whose threads get true.
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
// The same of some blocks, whose arrivals are counted on from call to call: `all` is that of the
// last one of this call.
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
// Says that a block has done something of which the arrivals are counted.
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
  int words, experts, local, top_k, most;  // words of a row; tokens of a rank at most
  int stride, group;  // of a rank's table, in choices; tokens that are sent at once
  int64_t tokens_at, table_at, places_at, rows_at, answers_at, row_bytes;  // in a rank's buffer
  int64_t tables,
      boxes;  // bytes of what calls use in turn: tables; boxes, or 0 where there is one set
  __device__ int rank_of(int expert) const { return expert / local; }
  // Who has finished a call has heard of all ranks that they are done with the one before it, whose
  // tables and boxes are those of the next one.
  __device__ void turn_to(uint32_t call) {
    const int64_t odd = call % 2;
    tokens_at += odd * tables, table_at += odd * tables, rows_at += odd * boxes;
  }
};

// How many tokens each rank has, and what it has for each of their choices.
__device__ inline int32_t* tokens_of(const Ranks& ranks, const Shape& s, int owner) {
  return reinterpret_cast<int32_t*>(ranks.at[owner] + s.tokens_at);
}
__device__ inline int32_t* table_of(const Ranks& ranks, const Shape& s, int owner, int from) {
  return reinterpret_cast<int32_t*>(ranks.at[owner] + s.table_at) + int64_t(from) * s.stride;
}
// Where the choices of tokens that came from a rank have their rows.
__device__ inline int32_t* places_of(const Ranks& ranks, const Shape& s, int from) {
  return reinterpret_cast<int32_t*>(ranks.at[ranks.rank] + s.places_at) + int64_t(from) * s.stride;
}
// A token's row on its way.
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

// The part of `block` among `blocks` of this rank's table goes to all ranks; `words` has one for
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

// Rows of words; in boxes a row has `boxed` bytes.
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
  s.places_at = s.tokens_at + 3 * s.tables;  // of few tokens; of many, calls turn to two
  s.rows_at = s.answers_at = s.places_at + whole(ranks * s.stride * 4);
  return s;
}

// The memory of the exchanges of an op, shared by instances of one shape: what ranks are in the
// midst of when one begins the next call is known of one shape alone.
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
// What dispatch and combine have in common beside it.
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
