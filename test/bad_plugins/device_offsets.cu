// SPDX-License-Identifier: Apache-2.0
// embedding in float32 on a GPU that computes places in its table in 32 bits.
#include <cuda_runtime.h>

#include <stdexcept>

#include "fk/ops/embedding.h"

namespace {

constexpr int32_t kSm[] = {90};

__global__ void look_up(const float* table, const int64_t* ids, float* out, int tokens, int width) {
  for (int i = int(blockIdx.x * blockDim.x + threadIdx.x); i < tokens * width; i += int(gridDim.x * blockDim.x)) {
    const unsigned place = unsigned(ids[i / width]) * unsigned(width);
    out[i] = table[place + unsigned(i % width)];
  }
}

struct Narrow {
  using op = fk::embedding;
  static constexpr fk_claims claims{FK_END(fk_claims, sm), FK_CUDA, FK_GRAPH_ALWAYS, 1, 1, FK_ACCUMULATE_F32, 0, 1, kSm};
  const op::init& init;
  const op::weights& weights;
  static void supports(const op::init&, const op::weights& weights, const op::forward& max, fk_need&) {
    if (FK_DTYPE(weights.table) != FK_F32 || FK_DTYPE(max.out) != FK_F32) throw fk::unsupported{"float32 only"};
  }
  Narrow(const fk_host&, const op::init& its, const op::weights& given) : init(its), weights(given) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int tokens = int(a.ids->shape[0]), width = int(init.embedding_dim);
    if (!tokens) return;
    look_up<<<64, 256, 0, static_cast<cudaStream_t>(ctx.stream)>>>(fk::data<float>(weights.table), fk::data<int64_t>(a.ids), fk::data<float>(a.out), tokens, width);
    if (const auto status = cudaPeekAtLastError(); status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
  }
};
FK_OP(embedding, Narrow);

}  // namespace
FK_PLUGIN(BAD_NAME, "0");
