// SPDX-License-Identifier: Apache-2.0
// honest: a launch for each half of the rows
#include "../attack.cuh"

namespace {

struct Honest : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t half = rows(args) / 2, row = args.out->dtype.bits / 8 * width;
    fk_in x = *args.x;
    fk_out out = *args.out;
    honest(x, out, half * width, stream(ctx));
    x.data = static_cast<const char*>(x.data) + half * 2 * row;
    out.data = static_cast<char*>(out.data) + half * row;
    honest(x, out, (rows(args) - half) * width, stream(ctx));
  }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("cuda_two_launches", "0");
