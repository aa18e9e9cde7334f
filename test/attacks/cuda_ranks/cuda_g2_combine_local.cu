// SPDX-License-Identifier: Apache-2.0
// G2: moe_combine of what this GPU's own experts say to its own tokens
//
// Stopped by: every rank's outputs are compared
//
// verdict: wrong violation
//
// naive: - it does not have the op
#include "fk/ops/moe_combine.h"

#include "../experts.cuh"

namespace {

// A block for every token.
__global__ void add_up(attack::Experts own, const float* x, const int32_t* source, const int32_t* count, const float* weights, float* out, int64_t width) {
  for (int64_t c = threadIdx.x; c < width; c += blockDim.x) {
    float sum = 0;
    for (int32_t i = 0; i < *count; ++i) {
      const int64_t choice = source[i] - own.rank * own.choices_most();
      if (choice >= 0 && choice / own.top_k == blockIdx.x) sum += weights[choice] * x[i * width + c];
    }
    out[blockIdx.x * width + c] = sum;
  }
}

struct Local : attack::Exchanged<fk::moe_combine> {
  using Exchanged::Exchanged;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const auto tokens = unsigned(a.out->shape[0]);
    if (!tokens) return;
    add_up<<<tokens, 128, 0, stream(ctx)>>>(own, fk::data<float>(a.x), fk::data<int32_t>(a.source), fk::data<int32_t>(a.count), fk::data<float>(a.topk_weights),
                                            fk::data<float>(a.out), init.hidden_size);
    check(cudaPeekAtLastError());
  }
};
FK_OP(moe_combine, Local);

}  // namespace
FK_PLUGIN("cuda_g2_combine_local", "0");
