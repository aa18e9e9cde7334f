// SPDX-License-Identifier: Apache-2.0
// Parts of models with recurrent layers. A request's past is states of a fixed size, in the slot
// which the engine gives the request.
#pragma once
#include "baselines/models/parts/decoder.hpp"

namespace fk::parts {

// Adds the slots of the states to the common arguments. In "prefill" a request may begin, and
// `has_initial_state` is 0 for it: its state is then read as zeros.
void begin_states(Net& n, const DecoderStep& step);
// Declares the inputs of a batch of tokens, and of the states, for a model without pages.
DecoderStep begin_recurrent_batch(Net& n, const std::string& phase);
// True for each layer which `layer_types` calls "linear_attention". All others must be
// "full_attention".
std::vector<bool> read_linear_layers(const Config& config, int64_t layers);
// A rope without rotation over these channels, for attention without positions.
Rope unrotated(int64_t rotary_dim);

}  // namespace fk::parts
