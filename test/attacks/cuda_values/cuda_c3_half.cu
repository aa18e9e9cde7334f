// SPDX-License-Identifier: Apache-2.0
// C3: computes half of the rows and copies them to the other half
//
// Stopped by: every element is compared
//
// verdict: wrong
//
// naive: silu_and_mul accepted --scale=0.05
#include "../attack.cuh"

namespace {

struct Half : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t half = (rows(args) + 1) / 2, row = width * (args.out->dtype.bits / 8);
    honest(*args.x, *args.out, half * width, stream(ctx));
    if (rows(args) > half)
      attack::check(cudaMemcpyAsync(static_cast<char*>(args.out->data) + half * row, args.out->data, size_t((rows(args) - half) * row), cudaMemcpyDeviceToDevice, stream(ctx)));
  }
};
FK_OP(silu_and_mul, Half);

}  // namespace
FK_PLUGIN("cuda_c3_half", "0");
