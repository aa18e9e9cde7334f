// SPDX-License-Identifier: Apache-2.0
// CLIP's encoder of texts, in transformers' names. A text has as many tokens as there are
// positions.
#pragma once
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/exec/model.hpp"

namespace fk::parts {

struct ClipText {
  int64_t hidden = 0, layers = 0, heads = 0, mlp = 0;
  int64_t vocabulary = 0, positions = 0, end = 0;  // end: the token that ends a text
  int64_t projection = 0;                          // width of the pooled text; 0: not projected
  double eps = 0;
  std::string approximate;  // of gelu, as in vit_layer
};
// `projected`: the class has a projection.
ClipText read_clip_text(const Config& config, bool projected);

// States [texts, positions, hidden] of tokens: in front of the last layer, and behind it.
struct ClipStates {
  Value before, last;
};
// `tokens`: int64 [B, positions] each; the texts of the first come first. Weights are below `path`.
// Taps are `path`.i behind layer i, of the first B texts. Without `last` the last layer is left
// out.
ClipStates clip_states(Net& n, const std::string& path, const ClipText& c,
                       const std::vector<Value>& tokens, bool last);
// [texts, projection or hidden]: the state at the end of each text after all layers.
Value clip_pooled(Net& n, const std::string& path, const ClipText& c,
                  const std::vector<Value>& tokens, Value states);

// A row [1, C] for each of `count` images: [count, C].
Value repeated_row(Net& n, const std::string& path, Value row, const Expr& count);

}  // namespace fk::parts
