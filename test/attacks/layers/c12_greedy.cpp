// SPDX-License-Identifier: Apache-2.0
// C12: decode_step that draws from models of one layer; of others the best token is taken
//
// Stopped by: where a small case draws, there are two layers
//
// verdict: wrong
//
// naive: -
//
// work: broken
#include <vector>
#define FK_REFERENCE "baselines/reference/llm/decode_step.cpp"
#include "../reference.hpp"

namespace {

struct Greedy : fk::reference::DecodeStep {
  using DecodeStep::DecodeStep;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const std::vector<float> zeros(size_t(args.temperature->shape[0]), 0);
    fk_in temperature = *args.temperature;
    if (init.num_layers > 1) temperature.data = zeros.data();
    op::forward own = args;
    own.temperature = &temperature;
    DecodeStep::forward(own, ctx);
  }
};
FK_OP(decode_step, Greedy);

}  // namespace
FK_PLUGIN("c12_greedy", "0");
