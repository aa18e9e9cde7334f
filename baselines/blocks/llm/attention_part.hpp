// SPDX-License-Identifier: Apache-2.0
// The beginning of every decoder layer: input norm, attention, and the next norm. Layers share it
// which differ in attention or in their feed-forward part. Path names follow transformers and vLLM.
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
