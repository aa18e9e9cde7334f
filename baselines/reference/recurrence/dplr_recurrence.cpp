// SPDX-License-Identifier: Apache-2.0
// dplr_recurrence: DplrHeads of matrix_state.hpp, token by token.
#include "fk/ops/dplr_recurrence.h"
#include "matrix_state.hpp"

namespace fk::reference {
namespace {

struct DplrRecurrence : DplrHeads<dplr_recurrence> {
  using DplrHeads::DplrHeads;
  void forward(const fk::dplr_recurrence::forward& args, const fk_ctx& ctx) {
    scan_requests(args, ctx);
  }
};
FK_OP(dplr_recurrence, DplrRecurrence);

}  // namespace
}  // namespace fk::reference
