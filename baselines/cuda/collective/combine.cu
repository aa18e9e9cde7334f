// SPDX-License-Identifier: Apache-2.0
// moe_combine: the rank of experts adds their answers to a token's choices, in float32, and sends
// one row. The token's rank adds the answers of its own experts and the other ranks' rows, in the
// order of ranks. answers.cuh has the format of sums. Rounded to 16 bits, a sum would be wrong by a
// tenth if two ranks' sums almost cancel. There is one launch, and all its blocks run at once.
//
// Weights go to all ranks first. Meanwhile the kernel finds rows of x. With few tokens, a block
// searches all sources for those of its token; every block sends sums and then adds
// (combine_few.cuh). With many tokens, rows are noted by source. Blocks of some multiprocessors
// send sums, the others add. A warp takes the next part of a token, one at a time. Stores to
// another device wait in a multiprocessor's queue and delay its other work. A sender which is done
// helps to add.
//
// There is no deadlock: sums wait for weights alone. A sender of sums has heard that the receiver
// has begun this call, so the receiver has taken all sums of the previous one.
#include "../parts/op.cuh"
#include "../parts/peer.cuh"
#include "combine_few.cuh"
#include "fk/ops/moe_combine.h"
#include "staged.cuh"

namespace {
using namespace fkc;
using namespace fkc::experts;

constexpr int kWords = kChunk / 32;    // words of a lane at once
constexpr unsigned kSendersEvery = 2;  // every second multiprocessor sends, the first block's one too

// A part of a token's row: its number among all parts of its rank, and its words, which are whole
// chunks. Rows are cut by bytes, as another rank may have words of another size but waits for the
// same parts.
template <class Word>
struct Part {
  int number, token, first, end;
  __device__ Part(int i, const Shape& s) : number(i), token(i / kParts) {
    constexpr int kWhole = kChunk * 16 / int(sizeof(Word));  // words
    const int size = (s.words + kWhole * kParts - 1) / (kWhole * kParts) * kWhole;
    first = min(s.words, i % kParts * size), end = min(s.words, first + size);
  }
};

// Parts for warps, which ask for the next part ahead.
class Parts {
 public:
  __device__ explicit Parts(uint32_t* given) : given_(given) { ask(); }
  __device__ int next() {
    const int mine = int(__shfl_sync(kAll, ahead_, 0));
    ask();
    return mine;
  }

 private:
  __device__ void ask() {
    if (threadIdx.x % 32 == 0) ahead_ = atomicAdd(given_, 1u);
  }
  uint32_t* given_;
  uint32_t ahead_ = 0;
};

// Rows of x by source. A reader checks the row's source, so the memory need not be cleared.
__device__ inline int32_t* rows_by_source(const Shape& s, const Ranks& ranks) {
  return reinterpret_cast<int32_t*>(ranks.at[ranks.rank] + s.places_at);
}

// For a warp: the rows of x which answer a token's choices, in their order, and their weights.
// `sent`: the weight of each other rank's answer.
struct Rows {
  int row[kChosenMost];
  float weight[kChosenMost], sent[kMostRanks];
};
__device__ inline Rows& rows_of_warp() {
  __shared__ Rows rows[kWarps];
  return rows[threadIdx.x / 32];
}

// Returns the number of rows, out of `all` in x. Each lane searches for its choice. `weight`: the
// weight of its row.
template <class Word>
__device__ int find_rows(Rows& rows, const Answers<Word>& a, int all, int from, int token,
                         float weight, const Shape& s, const Ranks& ranks) {
  const int lane = int(threadIdx.x) % 32;
  int row = -1;
  if (lane < s.top_k) {
    const int source = (from * s.most + token) * s.top_k + lane,
              noted = __ldcg(rows_by_source(s, ranks) + source);
    if (unsigned(noted) < unsigned(all) && __ldcg(a.source + noted) == source) row = noted;
  }
  const unsigned here = __ballot_sync(kAll, row >= 0);
  const int at = __popc(here & ((1u << lane) - 1));
  if (row >= 0) rows.row[at] = row, rows.weight[at] = weight;
  __syncwarp();
  return __popc(here);
}

// Adds rows to the sums of a lane's words, from `first` on.
template <class T, class Word>
__device__ void add_rows(Elements<T, Held<Word>> (&sum)[kWords], const Answers<Word>& a,
                         const Rows& rows, int count, int first, const Shape& s) {
  constexpr int kRows = 2;  // at once
  const Word* const x = a.x + first;
#pragma unroll 1
  for (int p = 0; p < count; p += kRows) {
    Held<Word> words[kRows][kWords]{};
#pragma unroll
    for (int q = 0; q < kRows; ++q) {
      if (p + q >= count) continue;
      const Word* row = x + int64_t(rows.row[p + q]) * s.words;
#pragma unroll
      for (int k = 0; k < kWords; ++k)
        if (first + k * 32 < s.words) words[q][k] = load_word(row + k * 32);
    }
#pragma unroll
    for (int q = 0; q < kRows; ++q) {
      if (p + q >= count) continue;
      const float weight = rows.weight[p + q];
#pragma unroll
      for (int k = 0; k < kWords; ++k) {
        const auto answer = Elements<T, Held<Word>>::of(words[q][k]);
#pragma unroll
        for (int e = 0; e < Elements<T, Held<Word>>::kCount; ++e)
          sum[k].at[e] += weight * answer.at[e];
      }
    }
  }
}

// Sends the answer of this rank's experts to a token of another rank.
template <class T, class Word>
__device__ void send_sum(const Answers<Word>& a, int all, int from, const Part<Word>& part,
                         const Shape& s, const Ranks& ranks, uint32_t call) {
  using Travels = Travelling<T, Held<Word>>;
  Rows& rows = rows_of_warp();
  const int me = ranks.rank, lane = int(threadIdx.x) % 32, token = part.token;
  float weight = 0;
  if (lane < s.top_k)
    weight = __ldcg(reinterpret_cast<const float*>(table_of(ranks, s, me, from)) + token * s.top_k +
                    lane);
  const int count = find_rows(rows, a, all, from, token, weight, s, ranks);
  if (count == 0) return;
  const bool alone = count == 1;
  if (alone && lane == 0) rows.weight[0] = 1;  // the receiver applies its weight
  __syncwarp();
  char* const box = box_of<char>(ranks, s, from, me, token);
#pragma unroll 1
  for (int first = part.first + lane; first - lane < part.end; first += kChunk) {
    Elements<T, Held<Word>> sum[kWords]{};
    add_rows(sum, a, rows, count, first, s);
    uint32_t step = 0;  // which this lane sends for its four lanes
#pragma unroll
    for (int k = 0; k < kWords; ++k) {
      const bool there = first + k * 32 < s.words;
      const auto v = Travels::of(sum[k], alone, there);
      if (there) *Travels::wire_at(box, first + k * 32) = v.wire;
      if (lane % 4 == k) step = v.step;
    }
    if (Travels::in_steps(alone)) *Travels::step_at(box, first + lane % 4 * 32) = step;
  }
  __syncwarp();
  if (lane == 0) store_release(arrived(ranks, from, me, part.number), call);
  __syncwarp();  // the rows of the next token use the same memory
}

// Adds the answers of all ranks' experts to a token of this rank.
template <class T, class Word>
__device__ void add_up(const Answers<Word>& a, int all, const Part<Word>& part, const Shape& s,
                       const Ranks& ranks, uint32_t call) {
  using Travels = Travelling<T, Held<Word>>;
  Rows& rows = rows_of_warp();
  const int me = ranks.rank, lane = int(threadIdx.x) % 32, token = part.token;
  unsigned others, alone;
  const float weight = find_others(a, token, s, ranks, others, alone, rows.sent);
  const int count = find_rows(rows, a, all, me, token, weight, s, ranks);
#pragma unroll 1
  for (int first = part.first + lane; first - lane < part.end; first += kChunk) {
    Elements<T, Held<Word>> sum[kWords]{};
    add_rows(sum, a, rows, count, first, s);
    if (first == part.first + lane) {
      if (lane < ranks.size && (others >> lane & 1))
        wait_until(arrived(ranks, me, lane, part.number), call);
      __syncwarp();
    }
#pragma unroll 1
    for (int r = 0; r < ranks.size; ++r) {
      if (!(others >> r & 1)) continue;
      const bool single = alone >> r & 1;
      char* const box = box_of<char>(ranks, s, me, r, token);
      Travels came[kWords]{};
#pragma unroll
      for (int k = 0; k < kWords; ++k)
        if (first + k * 32 < s.words) came[k].wire = __ldcg(Travels::wire_at(box, first + k * 32));
      if (Travels::in_steps(single)) {
        const uint32_t step = __ldcg(Travels::step_at(box, first + lane % 4 * 32));
#pragma unroll
        for (int k = 0; k < kWords; ++k) came[k].step = __shfl_sync(kAll, step, lane / 4 * 4 + k);
      }
#pragma unroll
      for (int k = 0; k < kWords; ++k) came[k].add_to(sum[k], single, rows.sent[r]);
    }
#pragma unroll
    for (int k = 0; k < kWords; ++k)
      if (first + k * 32 < s.words)
        store_word(a.out + int64_t(token) * s.words + first + k * 32, sum[k].word());
  }
  __syncwarp();  // the rows of the next token use the same memory
}

template <class T, class Word>
__global__ void __launch_bounds__(kThreads, 2)
    combine_many(const Answers<Word> a, Shape s, const __grid_constant__ Ranks ranks) {
  wait_for_inputs();
  State* mine = state_of(ranks, ranks.rank);
  const uint32_t call = next_call(ranks);
  const int block = int(blockIdx.x), blocks = int(gridDim.x), others = ranks.size - 1;
  uint32_t* const given = mine->pieces + call % 2 * 2;
  s.turn_to(call);
  // Three loads at once. Sources behind the last row can be read, and are not noted.
  const int thread = block * kThreads + int(threadIdx.x), threads = blocks * kThreads;
  int source = thread < a.most ? __ldcg(a.source + thread) : 0;
  const int rows = __ldcg(a.count);
  push_table(reinterpret_cast<const int32_t*>(a.weights), a.tokens, block, blocks, s, ranks);
  for (int i = thread; i < rows; i += threads) {
    if (i != thread) source = __ldcg(a.source + i);
    rows_by_source(s, ranks)[source] = i;
  }
  if (block == 0 && threadIdx.x < 2) mine->pieces[(call + 1) % 2 * 2 + threadIdx.x] = 0;
  if (last_to_come(&mine->pushed, call * unsigned(blocks))) tell_all(ranks, &State::sent, call);
  if (block == 0 || sm_id() % kSendersEvery == 0) {
    wait_for_all(ranks, mine->sent, call);
    Parts parts(&given[0]);
    for (int job = parts.next(); job < s.most * kParts * others; job = parts.next()) {
      const int from = (ranks.rank + 1 + job % others) % ranks.size;
      const Part<Word> part(job / others, s);
      if (part.token < __ldcg(tokens_of(ranks, s, ranks.rank) + from) && part.first < part.end)
        send_sum<T>(a, rows, from, part, s, ranks, call);
    }
  } else {
    if (threadIdx.x == 0) wait_until(&mine->pushed, call * unsigned(blocks));
    __syncthreads();
  }
  Parts parts(&given[1]);
  for (int i = parts.next(); i < a.tokens * kParts; i = parts.next())
    if (const Part<Word> part(i, s); part.first < part.end) add_up<T>(a, rows, part, s, ranks, call);
  end_call(ranks, call);
}

struct MoeCombine : Exchanging<fk::moe_combine> {
  using Exchanging::Exchanging;
  void prepare(const op::forward& max, const fk_memory&) {
    const int64_t element = max.x->dtype.bits / 8;
    share(element, travelling_bytes(init.hidden_size, element), init.max_tokens_per_rank <= kFew);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t element = a.x->dtype.bits / 8, row = init.hidden_size * element;
    dispatch_floats(a.x, [&](auto type) {
      using T = decltype(type);
      const auto go = [&](auto word) {
        using Word = decltype(word);
        const Shape s = exchange->shape(init, int(sizeof(Word)));
        const Answers<Word> answers{fk::data<Word>(a.x),
                                    fk::data<int32_t>(a.source),
                                    fk::data<int32_t>(a.count),
                                    fk::data<int32_t>(a.topk_ids),
                                    fk::data<float>(a.topk_weights),
                                    fk::data<Word>(a.out),
                                    int(a.out->shape[0]),
                                    int(a.source->shape[0])};
        if (s.group == 1)
          launch(combine_few<T, Word>, unsigned(2 * processors), kThreads, 0, ctx, answers, s,
                 exchange->ranks());
        else
          launch(combine_many<T, Word>, unsigned(2 * processors), kThreads, 0, ctx, answers, s,
                 exchange->ranks());
      };
      if (word_bytes({address(a.x->data), address(a.out->data), row}) == 16) return go(uint4{});
      if constexpr (sizeof(T) == 2)
        if (row % 16 == 0) return go(Loose{});
      go(T{});
    });
  }
};
FK_OP(moe_combine, MoeCombine);

}  // namespace
