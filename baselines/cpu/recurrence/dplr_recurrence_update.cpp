// SPDX-License-Identifier: Apache-2.0
// dplr_recurrence_update: DplrStateOp of matrix_state.hpp.
#include "matrix_state.hpp"

#ifdef FK_CPU_OPS
#include "fk/ops/dplr_recurrence_update.h"

namespace fk::cpu {

struct DplrRecurrenceUpdateOp : DplrStateOp<fk::dplr_recurrence_update> {
  using DplrStateOp::DplrStateOp;
};
FK_OP(dplr_recurrence_update, DplrRecurrenceUpdateOp);

}  // namespace fk::cpu
#endif
