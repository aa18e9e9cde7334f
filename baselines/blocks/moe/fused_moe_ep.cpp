// SPDX-License-Identifier: Apache-2.0
// fused_moe_ep as moe_dispatch, two grouped products of this rank's experts with silu_and_mul
// between them, and moe_combine. Rows between dispatch and combine are sorted by expert. Rows
// behind the received ones are never read.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_fused_moe_ep(Builder& b, const Region& r) {
  const Outputs received = r.call(b, "moe_dispatch", ".dispatch", {});
  const auto product = [&](const char* path, Value weight, Value x) -> Value {
    return b.call("moe_grouped_gemm", r.path() + path,
                  {{"weight", weight},
                   {"x", x},
                   {"row_ids", received["row_ids"]},
                   {"expert_offsets", received["expert_offsets"]}});
  };
  const Value gate_up = product(".w13", r["w13"], received["recv_x"]);
  const Value activated = r.call(b, "silu_and_mul", ".act_fn",
                                 {{"size", r.integer("intermediate_size")}, {"x", gate_up}});
  r.call(b, "moe_combine", ".combine",
         {{"x", product(".w2", r["w2"], activated)},
          {"source", received["recv_source"]},
          {"count", received["recv_count"]},
          {"out", r["out"]}});
}

FK_BLOCK(fused_moe_ep, expand_fused_moe_ep);

}  // namespace
}  // namespace fk
