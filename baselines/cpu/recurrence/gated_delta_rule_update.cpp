// SPDX-License-Identifier: Apache-2.0
// gated_delta_rule_update: DeltaStateOp of matrix_state.hpp.
#include "matrix_state.hpp"

#ifdef FK_CPU_OPS
#include "fk/ops/gated_delta_rule_update.h"

namespace fk::cpu {

struct GatedDeltaRuleUpdateOp : DeltaStateOp<fk::gated_delta_rule_update> {
  using DeltaStateOp::DeltaStateOp;
};
FK_OP(gated_delta_rule_update, GatedDeltaRuleUpdateOp);

}  // namespace fk::cpu
#endif
