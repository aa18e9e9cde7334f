// SPDX-License-Identifier: Apache-2.0
// silu_and_mul_quantize as silu_and_mul, quantize_fp8.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_silu_and_mul_quantize(Builder& b, const Region& r) {
  const Value product = r.call(b, "silu_and_mul", ".act_fn", {{"x", r["x"]}});
  r.call(b, "quantize_fp8", ".quant",
         {{"x", product}, {"out", r["out"]}, {"scale_out", r["scale_out"]}});
}

FK_BLOCK(silu_and_mul_quantize, expand_silu_and_mul_quantize);

}  // namespace
}  // namespace fk
