// SPDX-License-Identifier: Apache-2.0
// fused_moe as moe_align, a grouped product with gathered rows, an activation, a second grouped
// product and moe_sum.
#include "core/base/error.hpp"
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_fused_moe(Builder& b, const Region& r) {
  const Outputs order = r.call(b, "moe_align", ".align", {});
  const auto product = [&](const char* path, int64_t rows_per_x, const std::string& weight,
                           Value x) -> Value {
    Args args = {{"top_k", rows_per_x},
                 {"weight", r[weight]},
                 {"x", x},
                 {"row_ids", order["row_ids"]},
                 {"expert_offsets", order["expert_offsets"]}};
    const bool scales = r.has(weight + "_scale_inv");
    if (scales && r.has(weight + "_bias"))
      fail(r.path(), "moe_grouped_gemm_fp8_block has no biases", "leave " + weight + "_bias out");
    if (scales)
      args.emplace_back("weight_scale_inv", r[weight + "_scale_inv"]);
    else
      args.emplace_back("bias", r[weight + "_bias"]);
    return r.call(b, scales ? "moe_grouped_gemm_fp8_block" : "moe_grouped_gemm", path,
                  std::move(args));
  };
  const Value gate_up = product(".w13", r.integer("top_k"), "w13", r["x"]);
  const std::string activation = r.choice("activation");
  Args args{{"size", r.integer("intermediate_size")}, {"x", gate_up}};
  if (activation == "gelu_tanh") args.emplace_back("kind", activation);
  const Value activated = r.call(b,
                                 activation == "silu"         ? "silu_and_mul"
                                 : activation == "swiglu_oai" ? "swiglu_oai"
                                                              : "activation_and_mul",
                                 ".act_fn", std::move(args));
  r.call(b, "moe_sum", ".sum", {{"x", product(".w2", 1, "w2", activated)}, {"out", r["out"]}});
}

FK_BLOCK(fused_moe, expand_fused_moe);

}  // namespace
}  // namespace fk
