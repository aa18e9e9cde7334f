// SPDX-License-Identifier: Apache-2.0
// fused_moe_mxfp4 as moe_align, two grouped products with mxfp4 weights, swiglu_oai between them,
// and moe_sum.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_fused_moe_mxfp4(Builder& b, const Region& r) {
  const Outputs order = r.call(b, "moe_align", ".align", {});
  const auto product = [&](const std::string& name, int64_t rows_per_x, Value x) -> Value {
    return r.call(b, "moe_grouped_gemm_mxfp4", "." + name,
                  {{"top_k", rows_per_x},
                   {"weight", r[name]},
                   {"weight_scale", r[name + "_scale"]},
                   {"bias", r[name + "_bias"]},
                   {"x", x},
                   {"row_ids", order["row_ids"]},
                   {"expert_offsets", order["expert_offsets"]}});
  };
  const Value activated = r.call(b, "swiglu_oai", ".act_fn",
                                 {{"size", r.integer("intermediate_size")},
                                  {"x", product("w13", r.integer("top_k"), r["x"])}});
  r.call(b, "moe_sum", ".sum", {{"x", product("w2", 1, activated)}, {"out", r["out"]}});
}

FK_BLOCK(fused_moe_mxfp4, expand_fused_moe_mxfp4);

}  // namespace
}  // namespace fk
