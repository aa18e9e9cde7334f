// SPDX-License-Identifier: Apache-2.0
// moe_combine: the rank of experts adds up what they say to a token's choices, in float32, and
// sends one row; the token's rank adds its own experts' answers and the others' rows in the order
// of ranks. Sums of 16-bit answers travel as the upper 24 bits of float32: as 16 bits they would be
// wrong by a tenth where two ranks' sums all but cancel. One launch, whose blocks all run at once.
//
// Weights go to all ranks first, and meanwhile rows of x are found. Of few tokens, a block looks
// through all sources for those of its token; every block sends sums and then adds up
// (combine_few.cuh). Of many, rows are noted by source; half of the blocks send sums, the others
// add up.
//
// Nobody waits in a circle: sums wait for weights alone. Who sends them has heard of their taker
// that it has begun this call, so it has taken those of the call before.
#include "combine_few.cuh"
#include "fk/ops/moe_combine.h"
#include "in_steps.cuh"
#include "runs.cuh"

namespace {
using namespace fkc;
using namespace fkc::experts;

constexpr int kInFlight = 4;  // words of a thread

// Rows of x that answer choices of a group's tokens, in their order; of this rank's own tokens also
// who else answers, who of them once, and the weight of what each sends: 1 for a sum.
struct Rows {
  int count[kGroup], row[kGroup][kChosenMost];
  float weight[kGroup][kChosenMost], sent[kGroup][kMostRanks];
  unsigned others[kGroup], alone[kGroup];
};

// What a lane has for its choice of token `t` becomes the token's list; by a whole warp.
template <class Word>
__device__ void list_rows(Rows& rows, int t, int row, const Answers<Word>& a, int from, int token,
                          const Shape& s, const Ranks& ranks) {
  const int lane = int(threadIdx.x) % 32, choice = token * s.top_k + lane;
  const unsigned here = __ballot_sync(kAll, row >= 0);
  unsigned others = 0, alone = 0;
  float weight = 0;
  if (from == ranks.rank) {
    weight = find_others(a, token, s, ranks, others, alone, rows.sent[t]);
  } else if (row >= 0) {
    weight = 1;
    if (__popc(here) > 1)
      weight =
          __ldcg(reinterpret_cast<const float*>(table_of(ranks, s, ranks.rank, from)) + choice);
  }
  if (row >= 0) {
    const int at = __popc(here & ((1u << lane) - 1));
    rows.row[t][at] = row;
    rows.weight[t][at] = weight;
  }
  if (lane == 0) rows.count[t] = __popc(here), rows.others[t] = others, rows.alone[t] = alone;
}

// Sums of a group's rows, to the rank that they came from; of this rank's own, with what the others
// send, to `out`.
template <class T, class Word>
__device__ void add_up(const Answers<Word>& a, const Rows& rows, int from, int first, int end,
                       const Shape& s, const Ranks& ranks, uint32_t call) {
  const int me = ranks.rank, total = (end - first) * s.words;
  int most = 0;
  for (int t = 0; t < end - first; ++t) most = max(most, rows.count[t]);
  for (int base = 0; base < total; base += kThreads * kInFlight) {
    Elements<T, Word> sum[kInFlight]{};
    int token[kInFlight], word[kInFlight], count[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      const int at = base + k * kThreads + int(threadIdx.x);
      token[k] = min(at / s.words, end - first - 1);
      word[k] = at % s.words;
      count[k] = at < total ? rows.count[token[k]] : 0;
    }
#pragma unroll 2
    for (int p = 0; p < most; ++p) {
      Word words[kInFlight];
#pragma unroll
      for (int k = 0; k < kInFlight; ++k)
        if (p < count[k])
          words[k] = __ldcg(a.x + int64_t(rows.row[token[k]][p]) * s.words + word[k]);
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) {
        if (p >= count[k]) continue;
        const float weight = rows.weight[token[k]][p];
        const auto answer = Elements<T, Word>::of(words[k]);
#pragma unroll
        for (int e = 0; e < Elements<T, Word>::kCount; ++e) sum[k].at[e] += weight * answer.at[e];
      }
    }
    if (from == me) {
      if (base == 0) {
        unsigned others = 0;
        for (int t = 0; t < end - first; ++t) others |= rows.others[t];
        if (int(threadIdx.x) < ranks.size && (others >> threadIdx.x & 1))
          wait_until(arrived(ranks, me, int(threadIdx.x), first / s.group), call);
        __syncthreads();
      }
      for (int r = 0; r < ranks.size; ++r) {
        Travelling<T, Word> came[kInFlight];
        const auto each = [&](auto f) {
#pragma unroll
          for (int k = 0; k < kInFlight; ++k)
            if (base + k * kThreads + int(threadIdx.x) < total && (rows.others[token[k]] >> r & 1))
              f(k);
        };
        each([&](int k) {
          char* box = box_of<char>(ranks, s, me, r, first + token[k]);
          came[k].upper = __ldcg(came[k].upper_at(box, word[k]));
          if (came[k].in_two(rows.alone[token[k]] >> r & 1))
            came[k].rest = __ldcg(came[k].rest_at(box, word[k], s.words));
        });
        each([&](int k) {
          came[k].add_to(sum[k], rows.alone[token[k]] >> r & 1, rows.sent[token[k]][r]);
        });
      }
    }
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      if (base + k * kThreads + int(threadIdx.x) >= total) continue;
      if (from == me)
        a.out[int64_t(first + token[k]) * s.words + word[k]] = sum[k].word();
      else if (count[k]) {
        char* box = box_of<char>(ranks, s, from, me, first + token[k]);
        const bool alone = count[k] == 1;
        const auto v = Travelling<T, Word>::of(sum[k], alone);
        *v.upper_at(box, word[k]) = v.upper;
        if (v.in_two(alone)) *v.rest_at(box, word[k], s.words) = v.rest;
      }
    }
  }
  if (from == me) return;
  __syncthreads();
  if (threadIdx.x != 0) return;
  __threadfence_system();
  store_release(arrived(ranks, from, me, first / s.group), call);
}

// Rows of x by source; whoever reads them asks whether the source is the row's, so that nothing has
// to be cleared.
__device__ inline int32_t* rows_by_source(const Shape& s, const Ranks& ranks) {
  return reinterpret_cast<int32_t*>(ranks.at[ranks.rank] + s.places_at);
}

template <class T, class Word>
__device__ void answer_group(const Answers<Word>& a, int from, int group, int tokens,
                             const Shape& s, const Ranks& ranks, uint32_t call) {
  __shared__ Rows rows;
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32, first = group * kGroup,
            end = min(tokens, first + kGroup);
  if (first >= end) return;
  __syncthreads();
  if (warp < end - first) {
    int row = -1;
    if (lane < s.top_k) {
      const int source = (from * s.most + first + warp) * s.top_k + lane,
                noted = __ldcg(rows_by_source(s, ranks) + source);
      if (unsigned(noted) < unsigned(__ldcg(a.count)) && __ldcg(a.source + noted) == source)
        row = noted;
    }
    list_rows(rows, warp, row, a, from, first + warp, s, ranks);
  }
  __syncthreads();
  add_up<T>(a, rows, from, first, end, s, ranks, call);
}

template <class T, class Word>
__global__ void __launch_bounds__(kThreads, 2)
    combine_many(const Answers<Word> a, int senders, Shape s, const __grid_constant__ Ranks ranks) {
  wait_for_inputs();
  State* mine = state_of(ranks, ranks.rank);
  const uint32_t call = next_call(ranks);
  const int block = int(blockIdx.x), blocks = int(gridDim.x), me = ranks.rank;
  s.turn_to(call);
  const int rows = *a.count;
  for (int i = block * kThreads + int(threadIdx.x); i < rows; i += blocks * kThreads)
    rows_by_source(s, ranks)[a.source[i]] = i;
  push_table(reinterpret_cast<const int32_t*>(a.weights), a.tokens, block, blocks, s, ranks);
  if (last_to_come(&mine->pushed, call * unsigned(blocks))) tell_all(ranks, &State::sent, call);
  wait_for_all(ranks, mine->sent, call);
  const int groups = (s.most + kGroup - 1) / kGroup;
  if (block < senders) {
    for (int job = block; job < groups * (ranks.size - 1); job += senders) {
      const int from = (me + 1 + job % (ranks.size - 1)) % ranks.size;
      answer_group<T>(a, from, job / (ranks.size - 1), __ldcg(tokens_of(ranks, s, me) + from), s,
                      ranks, call);
    }
  } else {
    for (int group = block - senders; group < groups; group += blocks - senders)
      answer_group<T>(a, me, group, a.tokens, s, ranks, call);
  }
  end_call(ranks, call);
}

struct MoeCombine : Exchanging<fk::moe_combine> {
  using Exchanging::Exchanging;
  void prepare(const op::forward& max, const fk_memory&) {
    const int64_t element = max.x->dtype.bits / 8;
    share(element, element == 2 ? 3 : element, init.max_tokens_per_rank <= kFew);
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
          launch(combine_many<T, Word>, unsigned(2 * processors), kThreads, 0, ctx, answers,
                 processors, s, exchange->ranks());
      };
      if (word_bytes({address(a.x->data), address(a.out->data), row}) == 16)
        go(uint4{});
      else
        go(T{});
    });
  }
};
FK_OP(moe_combine, MoeCombine);

}  // namespace
