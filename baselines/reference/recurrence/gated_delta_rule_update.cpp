// SPDX-License-Identifier: Apache-2.0
// gated_delta_rule_update: one step of DeltaHeads of matrix_state.hpp, for each request.
#include "fk/ops/gated_delta_rule_update.h"
#include "matrix_state.hpp"

namespace fk::reference {
namespace {

struct GatedDeltaRuleUpdate : DeltaHeads<gated_delta_rule_update> {
  using DeltaHeads::DeltaHeads;
  void forward(const fk::gated_delta_rule_update::forward& args, const fk_ctx& ctx) {
    scan_tokens(args, ctx);
  }
};
FK_OP(gated_delta_rule_update, GatedDeltaRuleUpdate);

}  // namespace
}  // namespace fk::reference
