// SPDX-License-Identifier: Apache-2.0
// Sends tokens to the ranks of their experts and answers back, by collectives of equal parts. Every
// rank sends every rank a letter with room for all its tokens, each at its place. A token's place
// is filled if the token has an expert there. So nothing depends on the number of tokens, and
// graphs can capture a call.
#pragma once
#include "ranked.cuh"

namespace fk::nccl {

// Rank r has the experts from r * local on. There are fewer than 2^24 choices of all ranks
// (need_experts()). A choice is (rank * most + token) * chosen + the number of the token's choice.
struct Spread {
  int ranks, rank, local, chosen, most;
  int64_t width;
  template <class Init>
  explicit Spread(const Init& init)
      : ranks(init.comm->size), rank(init.comm->rank), local(int(cdiv(init.num_experts, init.comm->size))), chosen(int(init.top_k)),
        most(int(init.max_tokens_per_rank)), width(init.hidden_size) {}
  __host__ __device__ int of_rank() const { return most * chosen; }  // choices
  __host__ __device__ int choices() const { return ranks * of_rank(); }
  int slots() const { return ranks * most; }  // a token of any rank
  int64_t rows_most() const { return int64_t(slots()) * std::min(chosen, local); }
  // True if one of a token's choices belongs to that rank.
  __device__ bool wants(const int32_t* ids, int of) const {
    bool any = false;
    for (int k = 0; k < chosen; ++k) any |= ids[k] >= 0 && ids[k] / local == of;
    return any;
  }
};

inline int64_t whole(int64_t bytes) { return cdiv(bytes, 256) * 256; }

// Scratch memory: letters to send, then received letters. A letter has all choices of a rank, and
// then its rows.
struct Letters {
  int64_t rows_at, row, bytes;
  Letters(const Spread& s, int64_t row_bytes) : rows_at(whole(int64_t(s.of_rank()) * 4)), row(row_bytes), bytes(rows_at + s.most * row_bytes) {}
  int64_t scratch(const Spread& s) const { return 2 * whole(s.ranks * bytes); }
};

namespace {

__global__ void write_letters(Spread s, Letters l, const uint4* x, const int32_t* ids, int tokens, char* letters) {
  wait_for_inputs();
  const int t = int(blockIdx.x), to = int(blockIdx.y);
  char* const letter = letters + to * l.bytes;
  for (int k = int(threadIdx.x); k < s.chosen; k += int(blockDim.x))
    reinterpret_cast<int32_t*>(letter)[t * s.chosen + k] = t < tokens ? ids[t * s.chosen + k] : -1;
  if (t >= tokens || !s.wants(ids + t * s.chosen, to)) return;
  const int64_t words = l.row / 16;
  uint4* const row = reinterpret_cast<uint4*>(letter + l.rows_at) + t * words;
  for (int64_t i = threadIdx.x; i < words; i += blockDim.x) row[i] = x[t * words + i];
}

// A block for every local expert counts the choices before its own, and then finds its own in
// order. One more block writes the end.
__global__ void sort_letters(Spread s, Letters l, const char* letters, int32_t* source, int32_t* row_ids, int32_t* offsets, int32_t* count) {
  __shared__ int found[32];
  wait_for_inputs();
  const int expert = int(blockIdx.x), all = s.choices(), warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  const auto local_of = [&](int choice) {
    return reinterpret_cast<const int32_t*>(letters + choice / s.of_rank() * l.bytes)[choice % s.of_rank()] - s.rank * s.local;
  };
  float before = 0;  // exact below 2^24
  for (int i = int(threadIdx.x); i < all; i += int(blockDim.x)) {
    const int at = local_of(i);
    before += at >= 0 && at < expert;
  }
  int next = int(block_sum(before));
  if (threadIdx.x == 0) offsets[expert] = next;
  if (expert == s.local) {
    if (threadIdx.x == 0) *count = next;
    return;
  }
  for (int first = 0; first < all; first += int(blockDim.x)) {
    const int i = first + int(threadIdx.x);
    const bool mine = i < all && local_of(i) == expert;
    const unsigned lanes = __ballot_sync(0xffffffffu, mine);
    if (lane == 0) found[warp] = __popc(lanes);
    __syncthreads();
    int at = next + __popc(lanes & ((1u << lane) - 1));
    for (int w = 0; w < int(blockDim.x) / 32; ++w) {
      if (w < warp) at += found[w];
      next += found[w];
    }
    if (mine) source[at] = i, row_ids[at] = at;
    __syncthreads();  // all threads have read the counts
  }
}

__global__ void read_letters(Spread s, Letters l, const char* letters, const int32_t* source, const int32_t* count, uint4* out) {
  wait_for_inputs();
  const int64_t words = l.row / 16;
  for (int64_t i = blockIdx.x; i < *count; i += gridDim.x) {
    const int from = source[i] / s.of_rank(), token = source[i] % s.of_rank() / s.chosen;
    const uint4* row = reinterpret_cast<const uint4*>(letters + from * l.bytes + l.rows_at) + token * words;
    for (int64_t w = threadIdx.x; w < words; w += blockDim.x) out[i * words + w] = row[w];
  }
}

__global__ void begin_answers(Spread s, const float* weights, int tokens, float* own, int32_t* rows) {
  wait_for_inputs();
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < s.choices()) rows[i] = -1;
  if (i < s.of_rank()) own[i] = i < tokens * s.chosen ? weights[i] : 0;
}
__global__ void find_answers(const int32_t* source, const int32_t* count, int32_t* rows) {
  wait_for_inputs();
  for (int i = int(blockIdx.x * blockDim.x + threadIdx.x); i < *count; i += int(gridDim.x * blockDim.x)) rows[source[i]] = i;
}
// A block for every token of every rank: the sum of the answers of this rank's experts.
template <class T> __global__ void write_answers(Spread s, const T* x, const int32_t* rows, const float* weights, float* answers) {
  wait_for_inputs();
  const int64_t slot = blockIdx.x, first = slot * s.chosen;
  bool any = false;
  for (int k = 0; k < s.chosen; ++k) any |= rows[first + k] >= 0;
  if (!any) return;
  for (int64_t c = threadIdx.x * 8; c < s.width; c += blockDim.x * 8) {
    float sum[8] = {}, one[8];
    for (int k = 0; k < s.chosen; ++k) {
      if (rows[first + k] < 0) continue;
      load_floats(x + rows[first + k] * s.width + c, one);
      for (int j = 0; j < 8; ++j) sum[j] += weights[first + k] * one[j];
    }
    store_floats(answers + slot * s.width + c, sum);
  }
}
// A block for every token of this rank: adds the answers of the ranks which it asked, in their
// order.
template <class T> __global__ void read_answers(Spread s, const float* answers, const int32_t* ids, T* out) {
  wait_for_inputs();
  const int64_t t = blockIdx.x;
  for (int64_t c = threadIdx.x * 8; c < s.width; c += blockDim.x * 8) {
    float sum[8] = {}, one[8];
    for (int r = 0; r < s.ranks; ++r) {
      if (!s.wants(ids + t * s.chosen, r)) continue;
      load_floats(answers + (int64_t(r) * s.most + t) * s.width + c, one);
      for (int j = 0; j < 8; ++j) sum[j] += one[j];
    }
    store_floats(out + t * s.width + c, sum);
  }
}

constexpr unsigned kThreads = 256, kSortThreads = 512, kBlocks = 2048;

}  // namespace

struct Received {
  void* x;
  int32_t *source, *row_ids, *offsets, *count;
};

inline void dispatch_tokens(const fk_comm* comm, const Spread& s, const fk_in* x, const fk_in* ids, const Received& to, void* scratch, const fk_ctx& ctx) {
  const Letters l(s, s.width * (x->dtype.bits / 8));
  char *const going = static_cast<char*>(scratch), *const come = going + whole(s.ranks * l.bytes);
  launch(write_letters, dim3(unsigned(s.most), unsigned(s.ranks)), kThreads, 0, ctx, s, l, static_cast<const uint4*>(x->data), fk::data<int32_t>(ids),
         int(x->shape[0]), going);
  const View from(ids, going, s.ranks, l.bytes / 4), in(ids, come, s.ranks, l.bytes / 4);
  must(comm, comm->all_to_all(comm, from.in(), in.out(), ctx.stream));
  launch(sort_letters, unsigned(s.local) + 1, kSortThreads, 0, ctx, s, l, come, to.source, to.row_ids, to.offsets, to.count);
  const auto blocks = unsigned(std::min<int64_t>(s.rows_most(), kBlocks));
  launch(read_letters, blocks, kThreads, 0, ctx, s, l, come, to.source, to.count, static_cast<uint4*>(to.x));
}

// Scratch memory: this rank's weights, all ranks' weights, the row of every choice, answers to
// send, and received answers. A token's rank has its weights, so they have to come first. Sums of
// 16 bits would lose precision if terms cancel, so sums go back in float32.
struct Answers {
  int64_t own, all, rows, going, come, bytes;
  explicit Answers(const Spread& s) {
    const int64_t answers = whole(int64_t(s.slots()) * s.width * 4);
    own = 0;
    all = own + whole(int64_t(s.of_rank()) * 4);
    rows = all + whole(int64_t(s.choices()) * 4);
    going = rows + whole(int64_t(s.choices()) * 4);
    come = going + answers;
    bytes = come + answers;
  }
};
struct Said {
  const fk_in* x;
  const int32_t *source, *count;
};

inline void combine_answers(const fk_comm* comm, const Spread& s, const Said& said, const fk_in* ids, const fk_in* weights, const fk_out* out, void* scratch,
                            const fk_ctx& ctx) {
  const Answers at(s);
  const int tokens = int(out->shape[0]);
  char* const base = static_cast<char*>(scratch);
  auto *own = reinterpret_cast<float*>(base + at.own), *all = reinterpret_cast<float*>(base + at.all), *going = reinterpret_cast<float*>(base + at.going),
       *come = reinterpret_cast<float*>(base + at.come);
  auto* rows = reinterpret_cast<int32_t*>(base + at.rows);
  launch(begin_answers, unsigned(cdiv(s.choices(), kThreads)), kThreads, 0, ctx, s, fk::data<float>(weights), tokens, own, rows);
  launch(find_answers, unsigned(std::min<int64_t>(cdiv(s.rows_most(), kThreads), kBlocks)), kThreads, 0, ctx, said.source, said.count, rows);
  const View mine(weights, own, s.of_rank()), everybodys(weights, all, s.choices());
  must(comm, comm->all_gather(comm, mine.in(), everybodys.out(), ctx.stream));
  const auto with_type = [&](auto run) {
    if (FK_DTYPE(said.x) == FK_F32) run(float{});
    else dispatch(said.x, run);
  };
  with_type([&](auto type) {
    using T = decltype(type);
    launch(write_answers<T>, unsigned(s.slots()), kThreads, 0, ctx, s, fk::data<T>(said.x), rows, all, going);
  });
  const View from(weights, going, s.slots(), s.width), to(weights, come, s.slots(), s.width);
  must(comm, comm->all_to_all(comm, from.in(), to.out(), ctx.stream));
  with_type([&](auto type) {
    using T = decltype(type);
    if (tokens) launch(read_answers<T>, unsigned(tokens), kThreads, 0, ctx, s, come, fk::data<int32_t>(ids), fk::data<T>(out));
  });
}

}  // namespace fk::nccl
