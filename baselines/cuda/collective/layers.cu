// SPDX-License-Identifier: Apache-2.0
// Ops of divided layers: all_reduce_add_rms_norm with a block for each row and a one-shot sum
// (one_shot.cuh), and the embedding of a divided vocabulary.
#include "../parts/op.cuh"
#include "fk/ops/all_reduce_add_rms_norm.h"
#include "fk/ops/vocab_parallel_embedding.h"
#include "one_shot.cuh"

namespace {
using namespace fkc;

constexpr int kThreadsMax = 512, kPerMax = 4;

template <class T, int kPer, int kMost>
__global__ void __launch_bounds__(kThreadsMax)
    one_shot_all_reduce_rms_norm(const uint4* x, uint4* residual, const uint4* weight, uint4* out, int words, int rows, float eps, const __grid_constant__ Ranks ranks) {
  constexpr int kCount = 16 / sizeof(T);
  // Loads are in flight before their use is known: x and residual of the first row, which is mostly
  // the only one. Weights are loaded before x exists, if there are registers for them.
  uint4 own[kPer], before[kPer], gain[1];
  const int first = int(blockIdx.x);
  const auto each = [&](auto f) {
#pragma unroll
    for (int p = 0; p < kPer; ++p) {
      const int i = p * int(blockDim.x) + int(threadIdx.x);
      if (i < words) f(p, i);
    }
  };
  if constexpr (kPer == 1) each([&](int p, int i) { gain[p] = weight[i]; });
  wait_for_inputs();
  const auto load = [&](int row) {
    each([&](int p, int i) { own[p] = x[int64_t(row) * words + i], before[p] = residual[int64_t(row) * words + i]; });
  };
  if (first < rows) load(first);
  const Call<kMost> call(ranks);
  for (int row = first; row < rows; row += int(gridDim.x)) {
    if (row != first) load(row);
    each([&](int p, int i) { call.send(int64_t(row) * words + i, sendable<T>(own[p])); });
  }
  call.clear(int64_t(blockIdx.x) * blockDim.x + threadIdx.x, int64_t(gridDim.x) * blockDim.x);
  call.leave(uint32_t(rows) * uint32_t(words));
  const bool many = rows > int(gridDim.x);
  for (int row = first; row < rows; row += int(gridDim.x)) {
    const int64_t base = int64_t(row) * words;
    float squares = 0;
    Elements<T, uint4> values[kPer];
    if (many) load(row);
    each([&](int p, int i) {
      values[p] = call.template sum<T>(base + i, sendable<T>(own[p]), FK_SUM);
      values[p].add(before[p], FK_SUM);
      residual[base + i] = values[p].word();
#pragma unroll
      for (int k = 0; k < kCount; ++k) squares += values[p].at[k] * values[p].at[k];
    });
    const float scale = rsqrtf(block_sum(squares) / float(words * kCount) + eps);
    each([&](int p, int i) {
      const auto w = Elements<T, uint4>::of(kPer == 1 ? gain[0] : weight[i]);
#pragma unroll
      for (int k = 0; k < kCount; ++k) values[p].at[k] *= scale * w.at[k];
      out[base + i] = values[p].word();
    });
    __syncthreads();  // block_sum() uses its memory again
  }
}

struct AllReduceAddRmsNorm : Base<fk::all_reduce_add_rms_norm> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max, fk_need&) {
    need_ranks(init.comm);
    need_floats(max.x);
    const int type = FK_DTYPE(max.x);
    need(FK_DTYPE(fk_as_in(max.residual)) == type && FK_DTYPE(weights.weight) == type, "x, residual and weight of one dtype only");
    const int64_t row = init.hidden_size * max.x->dtype.bits / 8;
    need(row % 16 == 0 && row / 16 <= kThreadsMax * kPerMax, "rows of whole 16 bytes, up to 32 KiB");
    need(max.x->nbytes <= Inboxes::slot(init.comm->size), "at most what is sent at once");
  }
  void prepare(const op::forward&, const fk_memory&) { shared.emplace(init.comm); }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t rows = a.x->shape[0];
    if (rows == 0) return;
    const int words = int(init.hidden_size * a.x->dtype.bits / 128);
    const int threads = std::min(int(cdiv(words, 32) * 32), kThreadsMax);
    dispatch_floats(a.x, [&](auto type) {
      with_most_ranks(shared->ranks().size, [&](auto most) {
        const auto go = [&](auto kernel) {
          launch(kernel, unsigned(std::min<int64_t>(rows, 132)), threads, 0, ctx, fk::data<uint4>(a.x), fk::data<uint4>(a.residual),
                 fk::data<uint4>(weights.weight), fk::data<uint4>(a.out), words, int(rows), float(init.eps), shared->ranks());
        };
        words <= kThreadsMax ? go(one_shot_all_reduce_rms_norm<decltype(type), 1, decltype(most)::value>) : go(one_shot_all_reduce_rms_norm<decltype(type), kPerMax, decltype(most)::value>);
      });
    });
  }
  std::optional<Shared<Inboxes>> shared;
};
FK_OP(all_reduce_add_rms_norm, AllReduceAddRmsNorm);

template <class From, class To> __global__ void embed(const From* table, const int64_t* ids, To* out, int64_t first, int64_t rows, int width) {
  wait_for_inputs();
  const int64_t row = ids[blockIdx.x] - first;
  const bool here = row >= 0 && row < rows;
  for (int i = int(threadIdx.x); i < width; i += int(blockDim.x))
    out[int64_t(blockIdx.x) * width + i] = from_float<To>(here ? to_float(table[row * width + i]) : 0.F);
}

struct VocabParallelEmbedding : Base<fk::vocab_parallel_embedding> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max, fk_need&) {
    need(init.comm, "comm: a communicator is needed");
    need_floats(weights.table);
    need_floats(fk_as_in(max.out));
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t tokens = a.ids->shape[0], rows = init.num_embeddings_per_partition;
    if (tokens == 0) return;
    dispatch_floats(weights.table, [&](auto from) {
      dispatch_floats(fk_as_in(a.out), [&](auto to) {
        launch(embed<decltype(from), decltype(to)>, unsigned(tokens), 256, 0, ctx, fk::data<decltype(from)>(weights.table), fk::data<int64_t>(a.ids),
               fk::data<decltype(to)>(a.out), init.comm->rank * rows, rows, int(init.embedding_dim));
      });
    });
  }
};
FK_OP(vocab_parallel_embedding, VocabParallelEmbedding);

}  // namespace
