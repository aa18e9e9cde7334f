// SPDX-License-Identifier: Apache-2.0
// honest: copies its input into scratch first and its answer out of it last, in nodes of their own
#include "../attack.cuh"

namespace {

struct Honest : attack::Silu {
  using Silu::Silu;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max, fk_need& need) {
    Silu::supports(init, weights, max, need);
    need.scratch = 2 * (max.x->nbytes + 256);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    fk_in x = *args.x;
    fk_out out = *args.out;
    if (!out.nbytes) return;
    char* const scratch = static_cast<char*>(ctx.scratch);
    x.data = scratch;
    out.data = scratch + (x.nbytes + 255) / 256 * 256;
    attack::check(cudaMemcpyAsync(scratch, args.x->data, size_t(x.nbytes), cudaMemcpyDeviceToDevice, stream(ctx)));
    attack::check(cudaMemsetAsync(out.data, 0, size_t(out.nbytes), stream(ctx)));
    honest(x, out, count(args), stream(ctx));
    attack::check(cudaMemcpyAsync(args.out->data, out.data, size_t(out.nbytes), cudaMemcpyDeviceToDevice, stream(ctx)));
  }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("cuda_copies", "0");
