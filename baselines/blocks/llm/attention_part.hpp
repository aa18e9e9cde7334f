// SPDX-License-Identifier: Apache-2.0
// What every decoder layer begins with: input norm, attention, norm after it. Shared by the layers
// that differ in attention or in their feed-forward part. The path names are those of transformers
// and vLLM.
#pragma once
#include "core/graph/builder.hpp"

namespace fk::blocks {

// Leaves the sum of all residual branches so far in `residual` and returns the normalised input
// [T,C] of the feed-forward part.
inline Value attention_part(Builder& b, const Region& r, const char* attention = "self_attention",
                            const char* path = ".self_attn",
                            const char* before = ".input_layernorm",
                            const char* after = ".post_attention_layernorm") {
  const Value x = r.call(b, "rms_norm", before, {{"weight", r["input_norm"]}, {"x", r["hidden"]}});
  const Value attended = r.call(b, attention, path, {{"x", x}});
  return r.call(b, "rms_norm", after, {{"weight", r["post_norm"]}, {"x", attended}});
}

}  // namespace fk::blocks
