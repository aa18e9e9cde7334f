// SPDX-License-Identifier: Apache-2.0
// What every decoder layer begins with: input norm, attention, norm after it. Shared by the layers
// that differ only in their feed-forward part.
#pragma once
#include <initializer_list>

#include "core/graph/builder.hpp"

namespace fk::blocks {

// Leaves the sum of all residual branches so far in `residual` and returns the normalised input
// [T,C] of the feed-forward part. `more` names tensors that attention gets too where they are.
Value attention_part(Builder& b, const Region& r, std::initializer_list<const char*> more = {});

}  // namespace fk::blocks
