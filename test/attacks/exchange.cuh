// SPDX-License-Identifier: Apache-2.0
// The common parts of attacks and controls of several ranks on GPUs: all_reduce in float32 over
// memory of the peers, done right. Every rank copies its numbers there. Between two barriers on the
// devices, each adds up all numbers in the order of the ranks.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <stdexcept>

#include "fk/ops/all_reduce.h"

namespace attack {

constexpr int32_t kSm[] = {90};
constexpr int kRanksMost = 8;

struct Ranks {
  const float* at[kRanksMost];
};

// `factor`: of every rank's numbers; `ranks` of them are added up.
__global__ void add_up(Ranks from, int ranks, int64_t reduction, float factor, float* out, int64_t count) {
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += int64_t(gridDim.x) * blockDim.x) {
    float sum = from.at[0][i];
    for (int r = 1; r < ranks; ++r)
      sum = reduction == FK_SUM ? sum + from.at[r][i] : reduction == FK_MAX ? fmaxf(sum, from.at[r][i]) : fminf(sum, from.at[r][i]);
    out[i] = sum * factor;
  }
}

struct Exchange {
  using op = fk::all_reduce;
  static constexpr fk_claims claims{FK_END(fk_claims, sm), FK_CUDA, FK_GRAPH_ALWAYS, 1, 1, FK_ACCUMULATE_F32, 0, 1, kSm};
  const op::init& init;
  const fk_comm* comm;
  const fk_symmetric* peers = nullptr;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    if (!init.comm) throw fk::unsupported{"there is one rank"};
    if (init.comm->size > kRanksMost) throw fk::unsupported{"at most eight ranks"};
    if (FK_DTYPE(max.x) != FK_F32) throw fk::unsupported{"float32 only"};
  }
  Exchange(const fk_host&, const op::init& i, const op::weights&) : init(i), comm(i.comm) {}
  void prepare(const op::forward& max, const fk_memory&) { need(comm->symmetric(comm, max.x->nbytes, &peers)); }

  static cudaStream_t stream(const fk_ctx& ctx) { return static_cast<cudaStream_t>(ctx.stream); }
  static int64_t count(const op::forward& args) { return fk_numel(args.x); }
  void need(int32_t status) const {
    if (status != FK_OK) throw std::runtime_error(comm->error(comm));
  }
  static void check(cudaError_t status) {
    if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
  }
  void barrier(const fk_ctx& ctx) const { need(comm->barrier(comm, ctx.stream)); }
  void share(const op::forward& args, const fk_ctx& ctx) const {
    check(cudaMemcpyAsync(peers->buffers[comm->rank], args.x->data, size_t(args.x->nbytes), cudaMemcpyDeviceToDevice, stream(ctx)));
  }
  // The sum of the first `ranks` as their buffers are now, or this rank's own x if there is one
  // rank.
  void sum(const op::forward& args, const fk_ctx& ctx, int ranks, float factor = 1) const {
    Ranks from{};
    for (int r = 0; r < ranks; ++r) from.at[r] = ranks == 1 ? static_cast<const float*>(args.x->data) : static_cast<const float*>(peers->buffers[r]);
    const int64_t n = count(args);
    if (!n) return;
    const auto blocks = unsigned(std::min<int64_t>((n + 255) / 256, 1024));
    add_up<<<blocks, 256, 0, stream(ctx)>>>(from, ranks, init.reduction, factor, static_cast<float*>(args.out->data), n);
    check(cudaPeekAtLastError());
  }
  void honest(const op::forward& args, const fk_ctx& ctx) const {
    share(args, ctx);
    barrier(ctx);
    sum(args, ctx, comm->size);
    barrier(ctx);
  }
};

}  // namespace attack
