// SPDX-License-Identifier: Apache-2.0
// What the decoder layers with latent attention begin with: input norm, attention, norm after it.
#pragma once
#include "baselines/blocks/projection.hpp"

namespace fk::blocks {

// Leaves the sum of all residual branches so far in `residual` and returns the normalised input
// [T,C] of the feed-forward part.
Value mla_attention_part(Builder& b, const Region& r);

}  // namespace fk::blocks
