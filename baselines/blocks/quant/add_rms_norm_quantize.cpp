// SPDX-License-Identifier: Apache-2.0
// add_rms_norm_quantize as rms_norm, quantize_fp8. Both have an `eps` of their own.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_add_rms_norm_quantize(Builder& b, const Region& r) {
  const Value normed = r.call(b, "rms_norm", ".norm", {{"x", r["x"]}});
  r.call(b, "quantize_fp8", ".quant",
         {{"x", normed},
          {"size", r.integer("hidden_size")},
          {"eps", 1e-10},
          {"out", r["out"]},
          {"scale_out", r["scale_out"]}});
}

FK_BLOCK(add_rms_norm_quantize, expand_add_rms_norm_quantize);

}  // namespace
}  // namespace fk
