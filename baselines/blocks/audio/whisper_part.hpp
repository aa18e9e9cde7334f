// SPDX-License-Identifier: Apache-2.0
// The common parts of both layers of Whisper.
#pragma once
#include <string>

#include "core/graph/builder.hpp"

namespace fk {

// layer_norm of x by the region's weights <name>_norm_weight and _bias, at `path` below the layer.
Value whisper_norm(Builder& b, const Region& r, const std::string& path, const std::string& name,
                   Value x);
// x + y; `out` may be absent.
Value whisper_sum(Builder& b, const Region& r, const std::string& path, Value x, Value y,
                  Value out);
// The second half of a layer, into its output: x + gelu_mlp(norm(x)).
void whisper_mlp(Builder& b, const Region& r, Value x);

}  // namespace fk
