// SPDX-License-Identifier: Apache-2.0
// gated_delta_rule: DeltaStateOp of matrix_state.hpp.
#include "matrix_state.hpp"

#ifdef FK_CPU_OPS
#include "fk/ops/gated_delta_rule.h"

namespace fk::cpu {

struct GatedDeltaRuleOp : DeltaStateOp<fk::gated_delta_rule> {
  using DeltaStateOp::DeltaStateOp;
};
FK_OP(gated_delta_rule, GatedDeltaRuleOp);

}  // namespace fk::cpu
#endif
