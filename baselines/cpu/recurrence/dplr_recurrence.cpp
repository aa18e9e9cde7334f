// SPDX-License-Identifier: Apache-2.0
// dplr_recurrence: DplrStateOp of matrix_state.hpp.
#include "matrix_state.hpp"

#ifdef FK_CPU_OPS
#include "fk/ops/dplr_recurrence.h"

namespace fk::cpu {

struct DplrRecurrenceOp : DplrStateOp<fk::dplr_recurrence> {
  using DplrStateOp::DplrStateOp;
};
FK_OP(dplr_recurrence, DplrRecurrenceOp);

}  // namespace fk::cpu
#endif
