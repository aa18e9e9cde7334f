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
// As decoder_axis_limit(), with N: slots of states.
int64_t recurrent_axis_limit(const std::string& phase, const std::string& axis,
                             const Limits& limits);

}  // namespace fk::parts
