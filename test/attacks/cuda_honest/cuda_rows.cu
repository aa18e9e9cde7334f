// SPDX-License-Identifier: Apache-2.0
// honest: a launch for every row
#include "../attack.cuh"

namespace {

struct Honest : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t each = single(args) ? 4 : 2;
    for (int64_t row = 0; row < rows(args); ++row) {
      fk_in x = *args.x;
      fk_out out = *args.out;
      x.data = const_cast<char*>(static_cast<const char*>(x.data)) + row * 2 * width * each;
      out.data = static_cast<char*>(out.data) + row * width * each;
      honest(x, out, width, stream(ctx));
    }
  }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("cuda_rows", "0");
