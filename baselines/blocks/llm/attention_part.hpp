// SPDX-License-Identifier: Apache-2.0
// What every decoder layer begins with: input norm, attention, norm after it. Shared by the layers
// that differ only in their feed-forward part.
#pragma once
#include "core/graph/builder.hpp"

namespace fk::blocks {

// Leaves the sum of all residual branches so far in `residual` and returns the normalised input
// [T,C] of the feed-forward part.
Value attention_part(Builder& b, const Region& r);

}  // namespace fk::blocks
