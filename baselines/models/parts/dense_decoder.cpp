// SPDX-License-Identifier: Apache-2.0
// The decoder of a language model: all layers between the begin and the end of a step.
#include "baselines/models/parts/dense_decoder.hpp"

#include "baselines/models/parts/decode_step.hpp"

namespace fk::parts {

void DenseDecoder::forward(Net& n, const std::string& phase) const {
  const DecoderStep step = begin_step(n, phase, config_);
  for (int64_t i = 0; i < config_.layers; ++i) layer(n, step, i);
  end_step(n, step, config_);
  if (step.decode && !n.divided() && is_decode_step()) fold_decode_step(n);
}

}  // namespace fk::parts
