// SPDX-License-Identifier: Apache-2.0
// C12: linear_fp8_block without its bias where the input is quantized
//
// Stopped by: a small case has both
//
// verdict: wrong
//
// naive: -
//
// work: broken
#define FK_REFERENCE "baselines/reference/gemm/linear_fp8_block.cpp"
#include "../reference.hpp"

namespace {

struct Bias : attack::Otherwise<fk::reference::LinearFp8Block> {
  using Otherwise::Otherwise;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    op::weights own = weights;
    if (init.quantize_input) own.bias = {};
    as(init, own, args, ctx);
  }
};
FK_OP(linear_fp8_block, Bias);

}  // namespace
FK_PLUGIN("c12_bias_quantized", "0");
