// SPDX-License-Identifier: Apache-2.0
// honest: through scratch, written before it is read
#include "../attack.cuh"

namespace {

struct Honest : attack::Silu {
  using Silu::Silu;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max, fk_need& need) {
    Silu::supports(init, weights, max, need);
    need.scratch = std::max<int64_t>(max.out->nbytes, 256);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    fk_out out = *args.out;
    out.data = ctx.scratch;
    honest(*args.x, out, count(args), stream(ctx));
    if (args.out->nbytes)
      attack::check(cudaMemcpyAsync(args.out->data, ctx.scratch, size_t(args.out->nbytes), cudaMemcpyDeviceToDevice, stream(ctx)));
  }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("cuda_scratch", "0");
