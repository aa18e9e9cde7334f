// SPDX-License-Identifier: Apache-2.0
// What kernels share that pass tokens to the ranks of their experts, and answers back: what lies where in a rank's memory, the
// exchange of choices, their sort and the sum of the answers. Numbers say that everything was sent, and that everything was
// taken, before it may be sent again; they go on from call to call.
#pragma once
#include "ranks.cuh"

namespace fkc::experts {

constexpr int kThreads = 256;  // of the kernels that only pass on

// At the head of a rank's own buffer.
struct State {
  uint32_t sent[kMostRanks], answered[kMostRanks], taken[kMostRanks];  // by the other ranks: the number of a call
  uint32_t call;                                                       // that has been sent here
  uint32_t blocks[2];                                                  // that have sent, or taken
  int32_t tokens[kMostRanks];                                          // of each rank
};
// Behind it, by rank and group of tokens: the number of the call whose rows have come. At the same place whatever else is in a
// buffer, as instances share those of the same size.
constexpr int kGroup = 4, kGroupsMost = 8192, kFew = 512;
constexpr int64_t kArrivedAt = 256, kHead = kArrivedAt + int64_t{kMostRanks} * kGroupsMost * 4;
static_assert(sizeof(State) <= kArrivedAt, "the state fits");

__device__ inline State* state_of(const Ranks& ranks, int rank) { return reinterpret_cast<State*>(ranks.at[rank]); }

// Until all others have come as far as `number`.
__device__ inline void wait_for_all(const Ranks& ranks, const uint32_t* numbers, uint32_t number) {
  const int r = int(threadIdx.x);
  if (r < ranks.size && r != ranks.rank) wait_until(numbers + r, number);
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
__device__ inline void tell_all(const Ranks& ranks, uint32_t (State::*what)[kMostRanks], uint32_t number) {
  const int r = int(threadIdx.x);
  if (r >= ranks.size || r == ranks.rank) return;
  __threadfence_system();
  store_release((state_of(ranks, r)->*what) + ranks.rank, number);
}

template <class Word> __device__ void copy_row(Word* to, const Word* from, int words) {
#pragma unroll 4
  for (int i = int(threadIdx.x); i < words; i += kThreads) to[i] = __ldcg(from + i);
}

struct Shape {
  int words, experts, local, top_k, most;  // words of a row; tokens of a rank at most
  int64_t ids_at, places_at, rows_at, answers_at, row_bytes;  // in a rank's buffer
  bool many;                                                  // rows do not go with the choices
  __device__ int rank_of(int expert) const { return expert / local; }
};

__device__ inline int32_t* ids_of(const Ranks& ranks, const Shape& s, int owner, int from) {
  return reinterpret_cast<int32_t*>(ranks.at[owner] + s.ids_at) + int64_t(from) * s.most * s.top_k;
}

// Where the choices of tokens that came from a rank have their rows.
__device__ inline int32_t* places_of(const Ranks& ranks, const Shape& s, int from) {
  return reinterpret_cast<int32_t*>(ranks.at[ranks.rank] + s.places_at) + int64_t(from) * s.most * s.top_k;
}
__device__ inline uint32_t* arrived(const Ranks& ranks, int owner, int from, int group) {
  return reinterpret_cast<uint32_t*>(ranks.at[owner] + kArrivedAt) + from * kGroupsMost + group;
}
__device__ inline unsigned ranks_of_token(const Shape& s, const int32_t* choices) {
  unsigned wanted = 0;
  for (int k = 0; k < s.top_k; ++k)
    if (choices[k] >= 0 && choices[k] < s.experts) wanted |= 1u << s.rank_of(choices[k]);
  return wanted;
}

template <class Word> __global__ void __launch_bounds__(kThreads) send_tokens(const Word* x, const int32_t* topk_ids, int tokens, Shape s, const __grid_constant__ Ranks ranks) {
  wait_for_inputs();
  State* mine = state_of(ranks, ranks.rank);
  const uint32_t call = *static_cast<volatile uint32_t*>(&mine->call);
  wait_for_all(ranks, mine->taken, call);
  for (int t = int(blockIdx.x); t < tokens; t += int(gridDim.x)) {
    const unsigned wanted = s.many ? 0 : ranks_of_token(s, topk_ids + t * s.top_k);
    for (int j = 0; j < ranks.size; ++j) {
      const int r = ranks.rank + j < ranks.size ? ranks.rank + j : ranks.rank + j - ranks.size;
      for (int k = int(threadIdx.x); k < s.top_k; k += kThreads) ids_of(ranks, s, r, ranks.rank)[t * s.top_k + k] = topk_ids[t * s.top_k + k];
      if (!(wanted >> r & 1)) continue;
      char* place = ranks.at[r] + s.rows_at + (int64_t(ranks.rank) * s.most + t) * s.row_bytes;
      copy_row(reinterpret_cast<Word*>(place), x + int64_t(t) * s.words, s.words);
    }
  }
  if (blockIdx.x == 0 && int(threadIdx.x) < ranks.size) state_of(ranks, int(threadIdx.x))->tokens[ranks.rank] = tokens;
  if (!last_block(&mine->blocks[0])) return;
  tell_all(ranks, &State::sent, call + 1);
  if (threadIdx.x == 0) mine->call = call + 1;
}

// What the sort makes. Rows stand by segment: one for each local expert, or, of two parts, this rank's own rows of all experts
// before those of the other ranks.
struct Sorted {
  int32_t *source, *offsets;   // of a row; of a segment, and all rows behind them
  int32_t *row_ids, *count;    // or null
  uint32_t* placed;            // or null: zeros, so many of them
  int parts, zeros;
};

// A block per segment finds its rows, in the order of ranks and tokens.
static __global__ void __launch_bounds__(kThreads) sort_tokens(Sorted to, Shape s, const __grid_constant__ Ranks ranks) {
  wait_for_inputs();
  State* mine = state_of(ranks, ranks.rank);
  wait_for_all(ranks, mine->sent, mine->call);
  __shared__ int before, warps[kThreads / 32 + 1];
  const int expert = int(blockIdx.x) % s.local, part = int(blockIdx.x) / s.local, first = ranks.rank * s.local;
  for (int i = int(blockIdx.x * kThreads + threadIdx.x); i < to.zeros; i += int(gridDim.x) * kThreads) to.placed[i] = 0;
  const auto part_of = [&](int r) { return to.parts > 1 && r != ranks.rank ? 1 : 0; };
  if (threadIdx.x == 0) before = 0;
  __syncthreads();
  int less = 0;
  for (int r = 0; r < ranks.size; ++r) {
    if (part_of(r) > part) continue;
    const int below = part_of(r) < part ? s.local : expert;
    const int32_t* ids = ids_of(ranks, s, ranks.rank, r);
    const int entries = __ldcg(&mine->tokens[r]) * s.top_k;
    for (int i = int(threadIdx.x); i < entries; i += kThreads) {
      const int local = __ldcg(ids + i) - first;
      less += local >= 0 && local < below && first + local < s.experts;
    }
  }
  if (less) atomicAdd(&before, less);
  __syncthreads();
  int at = before;
  if (threadIdx.x == 0) to.offsets[blockIdx.x] = at;
  for (int r = 0; r < ranks.size; ++r) {
    if (part_of(r) != part) continue;
    const int32_t* ids = ids_of(ranks, s, ranks.rank, r);
    const int entries = __ldcg(&mine->tokens[r]) * s.top_k;
    for (int base = 0; base < entries; base += kThreads) {
      const int i = base + int(threadIdx.x);
      const bool here = i < entries && __ldcg(ids + i) == first + expert && first + expert < s.experts;
      const unsigned votes = __ballot_sync(0xffffffffu, here);
      if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = __popc(votes);
      __syncthreads();
      int place = at + __popc(votes & ((1u << (threadIdx.x % 32)) - 1));
      int all = 0;
      for (int w = 0; w < kThreads / 32; ++w) {
        if (w < int(threadIdx.x / 32)) place += warps[w];
        all += warps[w];
      }
      if (here) {
        to.source[place] = r * s.most * s.top_k + i;
        if (to.row_ids) to.row_ids[place] = place;
        if (s.many) places_of(ranks, s, r)[i] = place;
      }
      at += all;
      __syncthreads();
    }
  }
  if (blockIdx.x + 1 == gridDim.x && threadIdx.x == 0) {
    to.offsets[gridDim.x] = at;
    if (to.count) *to.count = at;
  }
}

template <class T, class Word>
__global__ void __launch_bounds__(kThreads) add_answers(const int32_t* topk_ids, const float* weights, Word* out, int tokens, Shape s, const __grid_constant__ Ranks ranks) {
  wait_for_inputs();
  State* mine = state_of(ranks, ranks.rank);
  wait_for_all(ranks, mine->answered, mine->call);
  const char* rows = ranks.at[ranks.rank] + s.answers_at;
  for (int t = int(blockIdx.x); t < tokens; t += int(gridDim.x)) {
    for (int i = int(threadIdx.x); i < s.words; i += kThreads) {
      Elements<T, Word> sum{};
      for (int k = 0; k < s.top_k; ++k) {
        const int expert = topk_ids[t * s.top_k + k];
        if (expert < 0 || expert >= s.experts) continue;
        const float weight = weights[t * s.top_k + k];
        const auto answer = Elements<T, Word>::of(__ldcg(reinterpret_cast<const Word*>(rows + (int64_t(t) * s.top_k + k) * s.row_bytes) + i));
#pragma unroll
        for (int e = 0; e < Elements<T, Word>::kCount; ++e) sum.at[e] += weight * answer.at[e];
      }
      out[int64_t(t) * s.words + i] = sum.word();
    }
  }
  if (last_block(&mine->blocks[1])) tell_all(ranks, &State::taken, mine->call);
}

inline int64_t whole(int64_t bytes) { return cdiv(bytes, 256) * 256; }

template <class Init> Shape shape_of(const Init& init, int64_t element_bytes, int word) {
  const int64_t ranks = init.comm->size, row = init.hidden_size * element_bytes;
  Shape s{};
  s.words = int(row / word);
  s.experts = int(init.num_experts);
  s.local = int(cdiv(init.num_experts, ranks));
  s.top_k = int(init.top_k);
  s.most = int(init.max_tokens_per_rank);
  s.row_bytes = cdiv(row, 16) * 16;
  s.ids_at = kHead;
  s.places_at = s.ids_at + whole(ranks * s.most * s.top_k * 4);
  s.rows_at = s.answers_at = s.places_at + whole(ranks * s.most * s.top_k * 4);
  s.many = s.most > kFew && s.most <= kGroupsMost * kGroup;
  return s;
}
inline unsigned blocks_for(int64_t rows) { return unsigned(std::clamp<int64_t>(rows, 1, 132 * 4)); }

}  // namespace fkc::experts
