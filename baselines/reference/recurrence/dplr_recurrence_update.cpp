// SPDX-License-Identifier: Apache-2.0
// dplr_recurrence_update: one step of DplrHeads of matrix_state.hpp, for each request.
#include "fk/ops/dplr_recurrence_update.h"
#include "matrix_state.hpp"

namespace fk::reference {
namespace {

struct DplrRecurrenceUpdate : DplrHeads<dplr_recurrence_update> {
  using DplrHeads::DplrHeads;
  void forward(const fk::dplr_recurrence_update::forward& args, const fk_ctx& ctx) {
    scan_tokens(args, ctx);
  }
};
FK_OP(dplr_recurrence_update, DplrRecurrenceUpdate);

}  // namespace
}  // namespace fk::reference
