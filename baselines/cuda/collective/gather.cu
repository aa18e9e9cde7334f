// SPDX-License-Identifier: Apache-2.0
// all_gather, all_gather_columns and all_to_all, in steps (staged.cuh): data of a rank goes to the
// boxes of the others, and from there to its place.
#include "../parts/op.cuh"
#include "fk/ops/all_gather.h"
#include "fk/ops/all_gather_columns.h"
#include "fk/ops/all_to_all.h"
#include "staged.cuh"

namespace {
using namespace fkc;

constexpr int kThreads = 512;

// The place of word i of rank r's x. Rows of `width` words stand beside those of the other ranks,
// in rows of `all` words. Words beyond are dropped.
struct Place {
  int64_t width, all;
  __device__ int64_t of(int r, int64_t i) const {
    const int64_t row = i / width, column = r * width + i % width;
    return column < all ? row * all + column : -1;
  }
};

// `total` words of x go to every rank. With `apart`, part r of x goes to rank r, and each part has
// `total` words.
template <class Word>
__global__ void __launch_bounds__(kThreads, 2)
    staged_exchange(const Word* x, Word* out, int64_t total, bool apart, Place place, int tile, unsigned steps, const __grid_constant__ Ranks ranks) {
  wait_for_inputs();
  const Steps block(ranks);
  const int me = ranks.rank;
  const auto send = [&](unsigned s) {
    const Tile t(s, tile, total);
    for (int64_t i = threadIdx.x; i < t.count; i += kThreads) {
      Word word{};
      if (!apart) word = x[t.begin + i];
      for (int k = 1; k < ranks.size; ++k) {
        const int to = me + k < ranks.size ? me + k : me + k - ranks.size;
        if (apart) word = x[to * total + t.begin + i];
        block.room<Word>(to, 0, s, me)[i] = word;
      }
    }
    block.tell(0, s);
  };
  const auto take = [&](unsigned s) {
    const Tile t(s, tile, total);
    for (int64_t i = threadIdx.x; i < t.count; i += kThreads)
      if (const int64_t at = place.of(me, t.begin + i); at >= 0) out[at] = x[(apart ? me * total : 0) + t.begin + i];
    block.wait(0, s);
    for (int k = 1; k < ranks.size; ++k) {
      const int from = (me + k) % ranks.size;
      const Word* there = block.room<Word>(me, 0, s, from);
      for (int64_t i = threadIdx.x; i < t.count; i += kThreads)
        if (const int64_t at = place.of(from, t.begin + i); at >= 0) out[at] = __ldcg(there + i);
    }
    __syncthreads();
  };
  send(0);
  for (unsigned s = 0; s < steps; ++s) {
    if (s + 1 < steps) send(s + 1);
    take(s);
  }
  block.finish(steps);
}

// `total`, `width` and `all` in bytes.
void run(const fk_in* x, const fk_out* out, int64_t total, bool apart, int64_t width, int64_t all, const Ranks& ranks, const fk_ctx& ctx) {
  const auto go = [&](auto type) {
    using Word = decltype(type);
    constexpr int64_t kWord = sizeof(Word);
    const Cut cut(total / kWord, Boxes::room(ranks.size) / kWord);
    launch(staged_exchange<Word>, unsigned(cut.blocks), kThreads, 0, ctx, fk::data<Word>(x), fk::data<Word>(out), total / kWord, apart,
           Place{width / kWord, all / kWord}, cut.tile, cut.steps, ranks);
  };
  if (total == 0) return;
  switch (word_bytes({total, width, all, address(x->data), address(out->data)})) {
    case 16: return go(uint4{});
    case 4: return go(0u);
    default: return go(static_cast<unsigned short>(0));
  }
}

template <class Op> struct Exchange : Base<Op> {
  using Base<Op>::Base;
  static void supports(const typename Op::init& init, const typename Op::weights&, const typename Op::forward& max, fk_need&) {
    need_ranks(init.comm);
    need(max.x->dtype.bits >= 16, "elements of two bytes and more only");
  }
  void prepare(const typename Op::forward&, const fk_memory&) { shared.emplace(this->init.comm); }
  std::optional<Shared<Boxes>> shared;
};

struct AllGather : Exchange<fk::all_gather> {
  using Exchange::Exchange;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t bytes = a.x->nbytes;
    run(a.x, a.out, bytes, false, bytes, a.out->nbytes, shared->ranks(), ctx);
  }
};
FK_OP(all_gather, AllGather);

struct AllGatherColumns : Exchange<fk::all_gather_columns> {
  using Exchange::Exchange;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t width = a.x->dtype.bits / 8;
    run(a.x, a.out, a.x->nbytes, false, a.x->shape[1] * width, a.out->shape[1] * width, shared->ranks(), ctx);
  }
};
FK_OP(all_gather_columns, AllGatherColumns);

struct AllToAll : Exchange<fk::all_to_all> {
  using Exchange::Exchange;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t part = a.x->nbytes / init.comm->size;
    run(a.x, a.out, part, true, part, a.out->nbytes, shared->ranks(), ctx);
  }
};
FK_OP(all_to_all, AllToAll);

}  // namespace
