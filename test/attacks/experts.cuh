// SPDX-License-Identifier: Apache-2.0
// The common parts of attacks on moe_dispatch and moe_combine on GPUs: float32, and a rank's
// experts.
#pragma once
#include <cuda_runtime.h>

#include <stdexcept>

#include "fk/cpp/plugin.hpp"

namespace attack {

constexpr int32_t kSm[] = {90};

struct Experts {
  int64_t rank, local, top_k, tokens_most;
  __host__ __device__ int64_t first() const { return rank * local; }
  __host__ __device__ int64_t choices_most() const { return tokens_most * top_k; }  // of a rank
};

template <class Op> struct Exchanged {
  using op = Op;
  static constexpr fk_claims claims{FK_END(fk_claims, sm), FK_CUDA, FK_GRAPH_ALWAYS, 1, 1, FK_ACCUMULATE_F32, 0, 1, kSm};
  const typename Op::init& init;
  const Experts own;
  static void supports(const typename Op::init& init, const typename Op::weights&, const typename Op::forward& max, fk_need&) {
    if (!init.comm) throw fk::unsupported{"there is one rank"};
    if (FK_DTYPE(max.x) != FK_F32) throw fk::unsupported{"float32 only"};
  }
  Exchanged(const fk_host&, const typename Op::init& i, const typename Op::weights&)
      : init(i), own{i.comm->rank, (i.num_experts + i.comm->size - 1) / i.comm->size, i.top_k, i.max_tokens_per_rank} {}
  void prepare(const typename Op::forward&, const fk_memory&) {}
  static cudaStream_t stream(const fk_ctx& ctx) { return static_cast<cudaStream_t>(ctx.stream); }
  static void check(cudaError_t status) {
    if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
  }
};

}  // namespace attack
