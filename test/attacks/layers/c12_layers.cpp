// SPDX-License-Identifier: Apache-2.0
// C12: decode_step with three layers, however many there are
//
// Stopped by: a small case has five
//
// verdict: wrong
//
// naive: -
//
// work: broken
#include <algorithm>
#define FK_REFERENCE "baselines/reference/llm/decode_step.cpp"
#include "../reference.hpp"

namespace {

struct Layers : attack::Otherwise<fk::reference::DecodeStep> {
  using Otherwise::Otherwise;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    op::init own = init;
    own.num_layers = std::min<int64_t>(init.num_layers, 3);
    as(own, weights, args, ctx);
  }
};
FK_OP(decode_step, Layers);

}  // namespace
FK_PLUGIN("c12_layers", "0");
