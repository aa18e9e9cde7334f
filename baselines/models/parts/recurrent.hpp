// SPDX-License-Identifier: Apache-2.0
// Parts of models with recurrent layers: a request's past is states of a fixed size, in the slot
// that the engine gives the request.
#pragma once
#include "baselines/models/parts/decoder.hpp"

namespace fk::parts {

// Puts the slots of the states among the common arguments. In "prefill" a request may begin, so
// `has_initial_state` says which states count.
void begin_states(Net& n, const DecoderStep& step);
// The inputs of a batch of tokens for a model without pages, its states among them.
DecoderStep begin_recurrent_batch(Net& n, const std::string& phase);
// Which of the layers that `layer_types` lists are of linear attention; the others are
// "full_attention".
std::vector<bool> read_linear_layers(const Config& config, int64_t layers);
// A rope of these channels that leaves them as they are, for attention without positions.
Rope unrotated(int64_t rotary_dim);

}  // namespace fk::parts
