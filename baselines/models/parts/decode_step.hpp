// SPDX-License-Identifier: Apache-2.0
// A decode step as one call, so that a plugin can take it whole.
#pragma once
#include "core/graph/builder.hpp"

namespace fk::parts {

// Puts one decode_step in the place of everything that a dense decoder's decode phase has recorded:
// embedding, decoder_layer by layer, rms_norm, linear, sample_tokens. Error for any other op.
void fold_decode_step(Builder& b);

}  // namespace fk::parts
