// SPDX-License-Identifier: Apache-2.0
// moe_dispatch and moe_combine. A token's row is sent once to every rank that has one of its experts, into a place of
// its own there, and the answers come back in the same way; who receives sorts, or adds up. Numbers say that
// everything was sent, and that everything was taken, before it may be sent again; they go on from call to call.
//
// Of many tokens, dispatch sends the choices alone at first. When they are sorted, one kernel sends rows, a few tokens at a time, and
// puts those that have come to their places meanwhile, each read once for all of a rank's experts. With few tokens that
// is a trip more, so rows go with the choices.
#include "fk/ops/moe_combine.h"
#include "fk/ops/moe_dispatch.h"
#include "../tensor_map.cuh"
#include "experts.cuh"
#include "in_steps.cuh"

namespace {
using namespace fkc;
using namespace fkc::experts;

template <class Word> __global__ void __launch_bounds__(kThreads) take_tokens(Word* recv_x, const int32_t* source, const int32_t* count, Shape s, const __grid_constant__ Ranks ranks) {
  wait_for_inputs();
  State* mine = state_of(ranks, ranks.rank);
  const int rows = *count, per_rank = s.most * s.top_k;
  for (int row = int(blockIdx.x); row < rows; row += int(gridDim.x)) {
    const int from = source[row] / per_rank, token = source[row] % per_rank / s.top_k;
    const char* place = ranks.at[ranks.rank] + s.rows_at + (int64_t(from) * s.most + token) * s.row_bytes;
    copy_row(recv_x + int64_t(row) * s.words, reinterpret_cast<const Word*>(place), s.words);
  }
  if (last_block(&mine->blocks[1])) tell_all(ranks, &State::taken, mine->call);
}

// Words of a row that a thread has at once.
constexpr int kAtOnce = 4;
template <class Word> __device__ inline void load_words(Word (&words)[kAtOnce], const Word* from, int first, int count) {
#pragma unroll
  for (int k = 0; k < kAtOnce; ++k)
    if (first + k * kThreads < count) words[k] = __ldcg(from + first + k * kThreads);
}
template <class Word> __device__ inline void store_words(Word* to, const Word (&words)[kAtOnce], int first, int count) {
#pragma unroll
  for (int k = 0; k < kAtOnce; ++k)
    if (first + k * kThreads < count) to[first + k * kThreads] = words[k];
}

// The rows of many tokens. The first `senders` blocks send, and wait for nobody; the others put what has come to its places,
// group by group as it comes, this rank's own from x.
template <class Word>
__global__ void __launch_bounds__(kThreads) pass_tokens(const Word* x, const int32_t* topk_ids, Word* recv_x, int tokens, int senders, Shape s, const __grid_constant__ Ranks ranks) {
  wait_for_inputs();
  State* mine = state_of(ranks, ranks.rank);
  const uint32_t call = *static_cast<volatile uint32_t*>(&mine->call);  // sent by now
  const int me = ranks.rank;
  const auto place = [&](int owner, int from, int t) { return reinterpret_cast<Word*>(ranks.at[owner] + s.rows_at + (int64_t(from) * s.most + t) * s.row_bytes); };
  if (int(blockIdx.x) < senders) {
    for (int group = int(blockIdx.x); group * kGroup < tokens; group += senders) {
      for (int t = group * kGroup; t < min(tokens, (group + 1) * kGroup); ++t) {
        const unsigned wanted = ranks_of_token(s, topk_ids + t * s.top_k);
        for (int i = int(threadIdx.x); i < s.words; i += kThreads * kAtOnce) {
          Word words[kAtOnce];
          load_words(words, x + int64_t(t) * s.words, i, s.words);
          for (int j = 1; j < ranks.size; ++j) {
            const int r = me + j < ranks.size ? me + j : me + j - ranks.size;
            if (wanted >> r & 1) store_words(place(r, me, t), words, i, s.words);
          }
        }
      }
      __syncthreads();
      const int r = int(threadIdx.x);
      if (r < ranks.size && r != me) {
        __threadfence_system();
        store_release(arrived(ranks, r, me, group), call);
      }
    }
  } else {
    const int groups = (s.most + kGroup - 1) / kGroup, takers = int(gridDim.x) - senders;
    for (int job = int(blockIdx.x) - senders; job < groups * ranks.size; job += takers) {
      const int group = job / ranks.size, from = (me + job % ranks.size) % ranks.size, first = group * kGroup;
      const int end = min(__ldcg(&mine->tokens[from]), first + kGroup);
      if (first >= end) continue;
      if (from != me && threadIdx.x == 0) wait_until(arrived(ranks, me, from, group), call);
      __syncthreads();
      const int32_t *ids = ids_of(ranks, s, me, from), *places = places_of(ranks, s, from);
      for (int t = first; t < end; ++t) {
        const Word* row = from == me ? x + int64_t(t) * s.words : place(me, from, t);
        for (int i = int(threadIdx.x); i < s.words; i += kThreads * kAtOnce) {
          Word words[kAtOnce];
          load_words(words, row, i, s.words);
          for (int k = 0; k < s.top_k; ++k) {
            const int expert = __ldcg(ids + t * s.top_k + k);
            if (expert < 0 || expert >= s.experts || s.rank_of(expert) != me) continue;
            store_words(recv_x + int64_t(__ldcg(places + t * s.top_k + k)) * s.words, words, i, s.words);
          }
        }
      }
    }
  }
  if (last_block(&mine->blocks[1])) tell_all(ranks, &State::taken, call);
}

// The experts' answers go to where the tokens came from.
template <class Word>
__global__ void __launch_bounds__(kThreads) send_answers(const Word* x, const int32_t* source, const int32_t* count, Shape s, const __grid_constant__ Ranks ranks) {
  wait_for_inputs();
  State* mine = state_of(ranks, ranks.rank);
  const uint32_t call = *static_cast<volatile uint32_t*>(&mine->call);
  wait_for_all(ranks, mine->taken, call);
  const int rows = *count, per_rank = s.most * s.top_k;
  for (int row = int(blockIdx.x); row < rows; row += int(gridDim.x)) {
    const int to = source[row] / per_rank, choice = source[row] % per_rank;
    copy_row(reinterpret_cast<Word*>(ranks.at[to] + s.answers_at + choice * s.row_bytes), x + int64_t(row) * s.words, s.words);
  }
  if (!last_block(&mine->blocks[0])) return;
  tell_all(ranks, &State::answered, call + 1);
  if (threadIdx.x == 0) mine->call = call + 1;
}

// Rows in words of 16 bytes where they and where they stand are whole, else in elements.
bool wide(const fk_in* x, const void* other, int64_t row) { return word_bytes({address(x->data), address(other), row}) == 16; }

template <class Op> struct Experts : Base<Op> {
  using Base<Op>::Base;
  static void supports(const typename Op::init& init, const typename Op::weights&, const typename Op::forward& max, fk_need&) {
    need_ranks(init.comm);
    need_floats(max.x);
    need(init.num_experts > 0 && init.max_tokens_per_rank * init.comm->size * init.top_k < (int64_t{1} << 31), "fewer choices than 2^31 only");
  }

 protected:
  void share(int64_t element_bytes, int64_t rows) {
    const Shape s = shape_of(this->init, element_bytes, 16);
    shared.emplace(this->init.comm, s.rows_at + rows * s.row_bytes);
  }
  std::optional<Shared<Op>> shared;
};

struct MoeDispatch : Experts<fk::moe_dispatch> {
  using Experts::Experts;
  void prepare(const op::forward& max, const fk_memory&) {
    share(max.x->dtype.bits / 8, init.comm->size * init.max_tokens_per_rank);
    processors = multiprocessors();
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t element = a.x->dtype.bits / 8, row = init.hidden_size * element;
    const auto go = [&](auto type) {
      using Word = decltype(type);
      const Shape s = shape_of(init, element, int(sizeof(Word)));
      const Ranks& ranks = shared->ranks();
      auto* source = fk::data<int32_t>(a.recv_source);
      auto* count = fk::data<int32_t>(a.recv_count);
      launch(send_tokens<Word>, blocks_for(a.x->shape[0]), kThreads, 0, ctx, fk::data<Word>(a.x), fk::data<int32_t>(a.topk_ids), int(a.x->shape[0]), s, ranks);
      launch(sort_tokens, unsigned(s.local), kThreads, 0, ctx, Sorted{source, fk::data<int32_t>(a.expert_offsets), fk::data<int32_t>(a.row_ids), count, nullptr, 1, 0}, s, ranks);
      if (!s.many) {
        launch(take_tokens<Word>, blocks_for(a.recv_x->shape[0]), kThreads, 0, ctx, fk::data<Word>(a.recv_x), source, count, s, ranks);
        return;
      }
      const int senders = processors * 2;
      launch(pass_tokens<Word>, unsigned(2 * senders), kThreads, 0, ctx, fk::data<Word>(a.x), fk::data<int32_t>(a.topk_ids), fk::data<Word>(a.recv_x),
             int(a.x->shape[0]), senders, s, ranks);
    };
    if (wide(a.x, a.recv_x->data, row)) go(uint4{});
    else if (element == 4) go(0u);
    else go(static_cast<unsigned short>(0));
  }
  int processors = 0;
};
FK_OP(moe_dispatch, MoeDispatch);

struct MoeCombine : Experts<fk::moe_combine> {
  using Experts::Experts;
  void prepare(const op::forward& max, const fk_memory&) { share(max.x->dtype.bits / 8, init.max_tokens_per_rank * init.top_k); }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t element = a.x->dtype.bits / 8, row = init.hidden_size * element;
    dispatch_floats(a.x, [&](auto type) {
      using T = decltype(type);
      const auto go = [&](auto word) {
        using Word = decltype(word);
        const Shape s = shape_of(init, element, int(sizeof(Word)));
        const Ranks& ranks = shared->ranks();
        launch(send_answers<Word>, blocks_for(a.x->shape[0]), kThreads, 0, ctx, fk::data<Word>(a.x), fk::data<int32_t>(a.source), fk::data<int32_t>(a.count), s, ranks);
        launch(add_answers<T, Word>, blocks_for(a.out->shape[0]), kThreads, 0, ctx, fk::data<int32_t>(a.topk_ids), fk::data<float>(a.topk_weights),
               fk::data<Word>(a.out), int(a.out->shape[0]), s, ranks);
      };
      if (wide(a.x, a.out->data, row)) go(uint4{});
      else go(T{});
    });
  }
};
FK_OP(moe_combine, MoeCombine);

}  // namespace
