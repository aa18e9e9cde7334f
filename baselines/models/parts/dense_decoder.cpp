// SPDX-License-Identifier: Apache-2.0
#include "baselines/models/parts/dense_decoder.hpp"

#include "baselines/models/parts/decode_step.hpp"
#include "baselines/models/parts/parallel.hpp"

namespace fk::parts {

Args DenseDecoder::arguments(Builder& b, const DecoderStep& step, const Limits& limits,
                             int64_t layer) const {
  Args args = layer_args(b, step, config_, limits, layer);
  add_to_layer(args, b, limits, layer);
  add_gated_mlp(args, b, config_, limits, layer);
  return args;
}

void DenseDecoder::forward(Builder& b, const std::string& phase, const Limits& limits) const {
  if (limits.parallel.ranks() > 1) return forward_part(b, phase, limits);
  const DecoderStep step = begin_step(b, phase, config_, limits);
  for (int64_t i = 0; i < config_.layers; ++i) {
    tap_hidden(b, step, i);
    b.call("decoder_layer", layer_path(i), arguments(b, step, limits, i));
  }
  end_step(b, step, config_, limits);
  if (step.decode) fold_decode_step(b);
}

// What one of several ranks computes.
void DenseDecoder::forward_part(Builder& b, const std::string& phase, const Limits& limits) const {
  ParallelStep p = begin_parallel(b, phase, config_, limits);
  for (int64_t i = 0; i < config_.layers; ++i) {
    const Args args = arguments(b, p.step, limits, i);
    const Value x = parallel_attention(b, p, config_, limits, i, args);
    Args mlp = args_of(b, "gated_mlp", args);
    mlp.emplace_back("x", x);
    p.step.hidden = parallel_block(b, p, limits, "gated_mlp", layer_path(i) + ".mlp", mlp);
  }
  end_parallel(b, p, config_, limits);
}

void DenseDecoder::drive(Session& session) const { generate(session, {config_.eos}); }

int64_t DenseDecoder::axis_limit(const std::string& phase, const std::string& axis,
                                 const Limits& limits) const {
  return decoder_axis_limit(phase, axis, limits);
}

std::string DenseDecoder::refusal(const Parallel& parallel) const {
  return decoder_refusal(config_, 0, parallel);
}

}  // namespace fk::parts
