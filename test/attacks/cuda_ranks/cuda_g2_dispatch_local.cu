// SPDX-License-Identifier: Apache-2.0
// G2: moe_dispatch of this GPU's own tokens: those of the others are not asked for
//
// Stopped by: what every rank gets is compared, and how many rows it is
//
// verdict: wrong violation
//
// naive: - it does not have the op
#include "fk/ops/moe_dispatch.h"

#include "../experts.cuh"

namespace {

__global__ void sort(attack::Experts own, const int32_t* ids, int64_t choices, int32_t* offsets, int32_t* source, int32_t* rows, int32_t* count) {
  int32_t at = 0;
  for (int64_t e = 0; e < own.local; ++e) {
    offsets[e] = at;
    for (int64_t i = 0; i < choices; ++i) {
      if (ids[i] != own.first() + e) continue;
      source[at] = int32_t(own.rank * own.choices_most() + i);
      rows[at] = at;
      ++at;
    }
  }
  offsets[own.local] = *count = at;
}
__global__ void fetch(attack::Experts own, const float* x, const int32_t* source, const int32_t* count, float* out, int64_t width) {
  for (int64_t row = blockIdx.x; row < *count; row += gridDim.x)
    for (int64_t c = threadIdx.x; c < width; c += blockDim.x) out[row * width + c] = x[source[row] % own.choices_most() / own.top_k * width + c];
}

struct Local : attack::Exchanged<fk::moe_dispatch> {
  using Exchanged::Exchanged;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    auto *source = fk::data<int32_t>(a.recv_source), *count = fk::data<int32_t>(a.recv_count);
    sort<<<1, 1, 0, stream(ctx)>>>(own, fk::data<int32_t>(a.topk_ids), fk_numel(a.topk_ids), fk::data<int32_t>(a.expert_offsets), source, fk::data<int32_t>(a.row_ids), count);
    fetch<<<64, 128, 0, stream(ctx)>>>(own, fk::data<float>(a.x), source, count, fk::data<float>(a.recv_x), init.hidden_size);
    check(cudaPeekAtLastError());
  }
};
FK_OP(moe_dispatch, Local);

}  // namespace
FK_PLUGIN("cuda_g2_dispatch_local", "0");
