// SPDX-License-Identifier: Apache-2.0
// gated_linear_attention_update: GatedStateOp of matrix_state.hpp.
#include "matrix_state.hpp"

#ifdef FK_CPU_OPS
#include "fk/ops/gated_linear_attention_update.h"

namespace fk::cpu {

struct GatedLinearAttentionUpdateOp : GatedStateOp<fk::gated_linear_attention_update> {
  using GatedStateOp::GatedStateOp;
};
FK_OP(gated_linear_attention_update, GatedLinearAttentionUpdateOp);

}  // namespace fk::cpu
#endif
