// SPDX-License-Identifier: Apache-2.0
// moe_dispatch, moe_combine and fused_moe_ep. Every rank puts its tokens and their choices into its
// buffer. A rank reads the rows of its own experts from there, and writes their results to the
// ranks which asked.
#include "fk/ops/fused_moe_ep.h"
#include "fk/ops/moe_combine.h"
#include "fk/ops/moe_dispatch.h"
#include "../product.cuh"
#include "ranked.cuh"

namespace {
using namespace fkr;

// Rank r has the experts from r * local on. A buffer begins with the number of tokens and their
// choices. Rows follow.
struct Spread {
  int64_t experts, local, chosen, most, rows_at;
  template <class Init>
  explicit Spread(const Init& init)
      : experts(init.num_experts), local((init.num_experts + init.comm->size - 1) / init.comm->size), chosen(init.top_k),
        most(init.max_tokens_per_rank), rows_at(256 + whole(most * chosen * 4)) {}
  __device__ int64_t tokens(const Buffers& all, int64_t rank) const { return *reinterpret_cast<const int64_t*>(all.at[rank]); }
  __device__ const int32_t* choices(const Buffers& all, int64_t rank) const { return reinterpret_cast<const int32_t*>(all.at[rank] + 256); }
  // The local number of an expert of this rank, or -1.
  __device__ int64_t local_of(const Buffers& all, int32_t expert) const {
    const int64_t at = expert - all.rank * local;
    return expert >= 0 && expert < experts && at >= 0 && at < local ? at : -1;
  }
  template <class Init> int64_t rows_most(const Init& init) const { return init.comm->size * most * std::min(chosen, local); }
};

// Puts tokens into the buffer, with rows of `row` bytes.
void ask(const Buffers& all, const Spread& s, const void* ids, int64_t tokens, const fk_ctx& ctx) {
  char* mine = all.at[all.rank];
  for_each(1, ctx, [=] __device__(int64_t) { *reinterpret_cast<int64_t*>(mine) = tokens; });
  copy_bytes(mine + 256, ids, tokens * s.chosen * 4, ctx);
}

// The order of rows: by expert, then by rank of origin, then by token. A thread for each expert
// goes through all choices.
void sort(const Buffers& all, const Spread& s, int32_t* offsets, int32_t* source, const fk_ctx& ctx) {
  for_each(s.local + 1, ctx, [=] __device__(int64_t expert) {
    int64_t start = 0;
    for (int64_t r = 0; r < all.size; ++r)
      for (int64_t i = 0; i < s.tokens(all, r) * s.chosen; ++i) {
        const int64_t at = s.local_of(all, s.choices(all, r)[i]);
        start += at >= 0 && at < expert;
      }
    offsets[expert] = int32_t(start);
    for (int64_t r = 0; r < all.size && expert < s.local; ++r)
      for (int64_t i = 0; i < s.tokens(all, r) * s.chosen; ++i)
        if (s.local_of(all, s.choices(all, r)[i]) == expert) source[start++] = int32_t(r * s.most * s.chosen + i);
  });
}

struct MoeDispatch : Carried<fk::moe_dispatch> {
  using Carried::Carried;
  static int64_t row_bytes(const op::init& init, const fk_in* x) { return init.hidden_size * (x->dtype.bits / 8); }
  static int64_t buffer_bytes(const op::init& init, const op::forward& max) {
    return Spread(init).rows_at + init.max_tokens_per_rank * row_bytes(init, max.x);
  }
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need& need) {
    need_comm(init.comm);
    need_buffers(init.comm, buffer_bytes(init, max), need);
  }
  void prepare(const op::forward& max, const fk_memory& memory) { make_buffers(buffer_bytes(init, max), memory); }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Spread s(init);
    const Buffers all = buffers;
    const int64_t row = row_bytes(init, a.x), tokens = a.x->shape[0];
    ask(all, s, a.topk_ids->data, tokens, ctx);
    copy_bytes(all.at[all.rank] + s.rows_at, a.x->data, tokens * row, ctx);
    share(a.x, ctx);
    auto *offsets = fk::data<int32_t>(a.expert_offsets), *source = fk::data<int32_t>(a.recv_source), *ids = fk::data<int32_t>(a.row_ids);
    auto* count = fk::data<int32_t>(a.recv_count);
    char* out = fk::data<char>(a.recv_x);
    sort(all, s, offsets, source, ctx);
    for_rows(s.rows_most(init), 64, 0, ctx, [=] __device__(int64_t i) {
      if (i == 0 && threadIdx.x == 0) *count = offsets[s.local];
      if (i >= offsets[s.local]) return;
      const int64_t from = source[i] / (s.most * s.chosen), token = source[i] % (s.most * s.chosen) / s.chosen;
      const char* there = all.at[from] + s.rows_at + token * row;
      for (int64_t b = threadIdx.x; b < row; b += blockDim.x) out[i * row + b] = there[b];
      if (threadIdx.x == 0) ids[i] = int32_t(i);
    });
    done(ctx);
  }
};

// Adds the answers to this rank's choices. They stand in its buffer from `from` on, with the dtype
// of `answers`.
void add_up(const Ref& answers, const Spread& s, const int32_t* ids, const float* weights, const Ref& out, int64_t tokens, int64_t width,
            const fk_ctx& ctx) {
  for_each(tokens * width, ctx, [=] __device__(int64_t i) {
    const int64_t first = i / width * s.chosen;
    double sum = 0;
    for (int64_t k = first; k < first + s.chosen; ++k)
      if (ids[k] >= 0 && ids[k] < s.experts) sum += double(weights[k]) * load(answers, k * width + i % width);
    store(out, i, sum);
  });
}
// Sends row i of x, for i < *count, to the rank which asked.
void answer(const Buffers& all, const Spread& s, const Ref& x, const int32_t* source, const int32_t* count, int64_t from, int64_t most, int64_t width,
            const fk_ctx& ctx) {
  for_rows(most, 64, 0, ctx, [=] __device__(int64_t i) {
    if (i >= *count) return;
    Ref there{};
    there.data = all.at[source[i] / (s.most * s.chosen)] + from;
    there.dtype = x.dtype;
    for (int64_t c = threadIdx.x; c < width; c += blockDim.x) store(there, source[i] % (s.most * s.chosen) * width + c, load(x, i * width + c));
  });
}

struct MoeCombine : Carried<fk::moe_combine> {
  using Carried::Carried;
  static int64_t buffer_bytes(const op::init& init, const op::forward& max) {
    return init.max_tokens_per_rank * init.top_k * init.hidden_size * (max.x->dtype.bits / 8);
  }
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need& need) {
    need_comm(init.comm);
    need_buffers(init.comm, buffer_bytes(init, max), need);
  }
  void prepare(const op::forward& max, const fk_memory& memory) { make_buffers(buffer_bytes(init, max), memory); }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Spread s(init);
    before_writing(ctx);
    answer(buffers, s, ref(a.x), fk::data<int32_t>(a.source), fk::data<int32_t>(a.count), 0, a.x->shape[0], init.hidden_size, ctx);
    deliver(a.x, ctx);
    Ref answers = doubles(buffers, buffers.rank);
    answers.dtype = FK_DTYPE(a.x);
    add_up(answers, s, fk::data<int32_t>(a.topk_ids), fk::data<float>(a.topk_weights), ref(a.out), a.out->shape[0], init.hidden_size, ctx);
    done(ctx);
  }
};

struct FusedMoeEp : Ranked<fk::fused_moe_ep> {
  using Ranked::Ranked;
  // Scratch memory. Rows are double; tables are not.
  struct Places {
    int64_t x, hidden, answers, offsets, source, bytes;
    explicit Places(const op::init& init) {
      const Spread s(init);
      const int64_t rows = s.rows_most(init);
      x = 0;
      hidden = x + whole(rows * init.hidden_size * 8);
      answers = hidden + whole(rows * 2 * init.intermediate_size * 8);
      offsets = answers + whole(rows * init.hidden_size * 8);
      source = offsets + whole((s.local + 1) * 4);
      bytes = source + whole(rows * 4);
    }
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max, fk_need& need) {
    Ranked::supports(init, weights, max, need);
    need.scratch = Places(init).bytes;
  }
  int64_t answers_at() const { return Spread(init).rows_at + init.max_tokens_per_rank * init.hidden_size * 8; }
  void prepare(const op::forward&, const fk_memory&) { make_buffers(answers_at() + init.max_tokens_per_rank * init.top_k * init.hidden_size * 8); }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Spread s(init);
    const Places places(init);
    const Buffers all = buffers;
    const int64_t tokens = a.x->shape[0], width = init.hidden_size, hidden = init.intermediate_size, rows = s.rows_most(init);
    char* const scratch = static_cast<char*>(ctx.scratch);
    auto *offsets = reinterpret_cast<int32_t*>(scratch + places.offsets), *source = reinterpret_cast<int32_t*>(scratch + places.source);
    const auto table = [&](int64_t at) {
      Ref r{};
      r.data = scratch + at;
      r.dtype = FK_F64;
      return r;
    };
    const Ref sorted = table(places.x), both = table(places.hidden), answers = table(places.answers), x = ref(a.x);
    ask(all, s, a.topk_ids->data, tokens, ctx);
    for_each(tokens * width, ctx, [=] __device__(int64_t i) { all.doubles(all.rank, s.rows_at)[i] = load(x, i); });
    barrier(ctx);
    sort(all, s, offsets, source, ctx);
    for_rows(rows, 64, 0, ctx, [=] __device__(int64_t i) {
      if (i >= offsets[s.local]) return;
      const int64_t from = source[i] / (s.most * s.chosen), token = source[i] % (s.most * s.chosen) / s.chosen;
      for (int64_t c = threadIdx.x; c < width; c += blockDim.x) store(sorted, i * width + c, all.doubles(from, s.rows_at)[token * width + c]);
    });
    multiply(sorted, weights.w13, both, offsets, rows, 2 * hidden, width, s, ctx);
    // Writes to the first half of the row. Each thread writes the element which it has read.
    for_rows(rows, ctx, [=] __device__(int64_t i) {
      if (i >= offsets[s.local]) return;
      for (int64_t c = threadIdx.x; c < hidden; c += blockDim.x)
        store(both, i * 2 * hidden + c, silu(load(both, i * 2 * hidden + c)) * load(both, i * 2 * hidden + hidden + c));
    });
    multiply(both, weights.w2, answers, offsets, rows, width, hidden, s, ctx, 2 * hidden);
    answer(all, s, answers, source, offsets + s.local, answers_at(), rows, width, ctx);
    barrier(ctx);
    add_up(doubles(all, all.rank, answers_at()), s, fk::data<int32_t>(a.topk_ids), fk::data<float>(a.topk_weights), ref(a.out), tokens, width, ctx);
    barrier(ctx);
  }

 private:
  // Rows of x, `step` elements apart, with the matrices [n, k] of their experts.
  void multiply(const Ref& x, const fk_in* weight, const Ref& out, const int32_t* offsets, int64_t rows, int64_t n, int64_t k, const Spread& s,
                const fk_ctx& ctx, int64_t step = 0) const {
    constexpr int64_t kTilesOfExpert = 64;
    multiply_rows(x, Dense{ref(weight), n, k}, Ref{}, out, Rows{nullptr, offsets, 1, rows, step ? step : k, 0, n, 0}, 2 * rows / s.local, s.local,
                  kTilesOfExpert, ctx);
  }
};

FK_OP(moe_dispatch, MoeDispatch);
FK_OP(moe_combine, MoeCombine);
FK_OP(fused_moe_ep, FusedMoeEp);

}  // namespace
