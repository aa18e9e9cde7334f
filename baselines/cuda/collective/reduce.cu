// SPDX-License-Identifier: Apache-2.0
// all_reduce and reduce_scatter. Small sums are one-shot (all_reduce_ll.cuh). Others are two-shot,
// in steps: every rank adds its own part of the other ranks' data and, for all_reduce, sends the
// sum to all. Values are added in float32 in the order of ranks and rounded once, so all ranks get
// the same bits.
#include "../parts/op.cuh"
#include "all_reduce_ll.cuh"
#include "fk/ops/all_reduce.h"
#include "fk/ops/reduce_scatter.h"
#include "staged.cuh"

namespace {
using namespace fkc;

constexpr int kThreads = 512;

// Words of the tile, several of a thread's in flight.
template <class F> __device__ void each_word(int64_t count, F f) {
  int64_t i = threadIdx.x;
  for (; i + 3 * kThreads < count; i += 4 * kThreads) f(i, std::integral_constant<int, 4>{});
  for (; i + kThreads < count; i += 2 * kThreads) f(i, std::integral_constant<int, 2>{});  // a step of four ranks
  for (; i < count; i += kThreads) f(i, std::integral_constant<int, 1>{});
}

template <class Word> __device__ void copy_words(Word* to, const Word* from, int64_t count) {
  each_word(count, [&](int64_t i, auto several) {
    constexpr int n = decltype(several)::value;
    Word w[n];
#pragma unroll
    for (int k = 0; k < n; ++k) w[k] = __ldcg(from + i + k * kThreads);
#pragma unroll
    for (int k = 0; k < n; ++k) to[i + k * kThreads] = w[k];
  });
}

// Part r of x, `part` words (the last may be shorter: x has `total`), is added up by rank r. The sum goes to its place
// in out and to all ranks (kAll), or to out alone.
template <class T, class Word, bool kAll, int kMost>
__global__ void __launch_bounds__(kThreads, 2)
    two_shot_reduce(const Word* x, Word* out, int64_t part, int64_t total, int tile, unsigned steps, const __grid_constant__ Ranks ranks, int op) {
  wait_for_inputs();
  const Steps block(ranks);
  const int me = ranks.rank;
  // The number of words of rank r's part.
  const auto size_of = [&](int r) { return total - r * part < 0 ? int64_t{0} : total - r * part < part ? total - r * part : part; };
  const auto send = [&](unsigned s) {
    for (int k = 1; k < ranks.size; ++k) {
      const int to = (me + k) % ranks.size;
      const Tile t(s, tile, size_of(to));
      copy_words(block.room<Word>(to, 0, s, me), x + to * part + t.begin, t.count);
    }
    block.tell(0, s);
  };
  const auto add = [&](unsigned s) {
    block.wait(0, s);
    const Tile t(s, tile, size_of(me));
    Word* to = out + (kAll ? me * part : 0) + t.begin;
    each_word(t.count, [&](int64_t i, auto several) {
      constexpr int n = decltype(several)::value;
#pragma unroll
      for (int k = 0; k < n; ++k) {
        const int64_t at = i + k * kThreads;
        Word all[kMost];
#pragma unroll
        for (int r = 0; r < kMost; ++r)
          if (r < ranks.size) all[r] = r == me ? x[me * part + t.begin + at] : __ldcg(block.room<Word>(me, 0, s, r) + at);
        auto sum = Elements<T, Word>::of(all[0]);
#pragma unroll
        for (int r = 1; r < kMost; ++r)
          if (r < ranks.size) sum.add(all[r], op);
        const Word word = sum.word();
        to[at] = word;
        if constexpr (kAll) {
#pragma unroll
          for (int j = 1; j < kMost; ++j) {
            if (j >= ranks.size) continue;
            const int r = me + j < ranks.size ? me + j : me + j - ranks.size;
            block.room<Word>(r, 1, s, me)[at] = word;
          }
        }
      }
    });
    if (kAll) block.tell(1, s);
    else __syncthreads();
  };
  const auto take = [&](unsigned s) {
    block.wait(1, s);
    for (int k = 1; k < ranks.size; ++k) {
      const int from = (me + k) % ranks.size;
      const Tile t(s, tile, size_of(from));
      copy_words(out + from * part + t.begin, block.room<Word>(me, 1, s, from), t.count);
    }
    __syncthreads();
  };
  send(0);
  for (unsigned s = 0; s < steps; ++s) {
    if (s + 1 < steps) send(s + 1);
    add(s);
    if (kAll && s > 0) take(s - 1);
  }
  if (kAll) take(steps - 1);
  block.finish(steps);
}

template <class T, class Word, bool kAll> void launch_steps(const fk_in* x, const fk_out* out, int64_t op, const Ranks& ranks, const fk_ctx& ctx) {
  const int64_t total = x->nbytes / int64_t(sizeof(Word)), part = cdiv(total, ranks.size);
  const Cut cut(part, Boxes::room(ranks.size) / int64_t(sizeof(Word)));
  const auto go = [&](auto most) {
    launch(two_shot_reduce<T, Word, kAll, decltype(most)::value>, unsigned(cut.blocks), kThreads, 0, ctx, fk::data<Word>(x), fk::data<Word>(out), part,
           total, cut.tile, cut.steps, ranks, int(op));
  };
  // Code for few ranks only where it counts.
  if constexpr (kAll && sizeof(Word) == 16) with_most_ranks(ranks.size, go);
  else go(std::integral_constant<int, kMostRanks>{});
}

template <class Op, bool kAll> void reduce(const typename Op::forward& a, int64_t op, const Ranks& ranks, const fk_ctx& ctx) {
  dispatch_floats(a.x, [&](auto type) {
    using T = decltype(type);
    const int64_t part = kAll ? 16 : a.out->nbytes;
    if (word_bytes({a.x->nbytes, part, address(a.x->data), address(a.out->data)}) == 16) launch_steps<T, uint4, kAll>(a.x, a.out, op, ranks, ctx);
    else launch_steps<T, T, kAll>(a.x, a.out, op, ranks, ctx);
  });
}

struct AllReduce : Base<fk::all_reduce> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_ranks(init.comm);
    need_floats(max.x);
  }
  void prepare(const op::forward&, const fk_memory&) {
    small.emplace(init.comm);
    large.emplace(init.comm);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t bytes = a.x->nbytes;
    if (bytes == 0) return;
    if (bytes > Mail::most(init.comm->size)) return reduce<op, true>(a, init.reduction, large->ranks(), ctx);
    const bool whole_words = word_bytes({address(a.x->data), address(a.out->data), bytes}) == 16;
    const int64_t words = cdiv(bytes, 16);
    const int threads = words <= 132 * 128 ? 128 : kThreads;
    dispatch_floats(a.x, [&](auto type) {
      using T = decltype(type);
      with_most_ranks(small->ranks().size, [&](auto most) {
        constexpr int kMost = decltype(most)::value;
        const auto go = [&](auto kernel) {
          launch(kernel, unsigned(cdiv(words, threads)), threads, 0, ctx, fk::data<char>(a.x), fk::data<char>(a.out), bytes,
                 Mailboxes<kMost>(small->ranks()), int(init.reduction));
        };
        whole_words ? go(one_shot_all_reduce_ll<T, kMost, true>) : go(one_shot_all_reduce_ll<T, kMost, false>);
      });
    });
  }
  std::optional<Shared<Mail>> small;
  std::optional<Shared<Boxes>> large;
};
FK_OP(all_reduce, AllReduce);

struct ReduceScatter : Base<fk::reduce_scatter> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_ranks(init.comm);
    need_floats(max.x);
  }
  void prepare(const op::forward&, const fk_memory&) { shared.emplace(init.comm); }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    if (a.x->nbytes) reduce<op, false>(a, init.reduction, shared->ranks(), ctx);
  }
  std::optional<Shared<Boxes>> shared;
};
FK_OP(reduce_scatter, ReduceScatter);

}  // namespace
