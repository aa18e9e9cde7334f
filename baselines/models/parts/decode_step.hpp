// SPDX-License-Identifier: Apache-2.0
// A decode step as one call, so that a plugin can take it whole.
#pragma once
#include "core/graph/builder.hpp"

namespace fk::parts {

// Replaces all recorded calls of a dense decoder's decode phase by one decode_step. The calls are
// embedding, a decoder_layer for each layer, rms_norm, linear and sample_tokens. Error for any
// other op.
void fold_decode_step(Builder& b);

}  // namespace fk::parts
