// SPDX-License-Identifier: Apache-2.0
// gated_delta_rule: DeltaHeads of matrix_state.hpp, token by token.
#include "fk/ops/gated_delta_rule.h"
#include "matrix_state.hpp"

namespace fk::reference {
namespace {

struct GatedDeltaRule : DeltaHeads<gated_delta_rule> {
  using DeltaHeads::DeltaHeads;
  void forward(const fk::gated_delta_rule::forward& args, const fk_ctx& ctx) {
    scan_requests(args, ctx);
  }
};
FK_OP(gated_delta_rule, GatedDeltaRule);

}  // namespace
}  // namespace fk::reference
