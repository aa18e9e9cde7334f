// SPDX-License-Identifier: Apache-2.0
// gated_linear_attention: GatedHeads of matrix_state.hpp, token by token.
#include "fk/ops/gated_linear_attention.h"
#include "matrix_state.hpp"

namespace fk::reference {
namespace {

struct GatedLinearAttention : GatedHeads<gated_linear_attention> {
  using GatedHeads::GatedHeads;
  void forward(const fk::gated_linear_attention::forward& args, const fk_ctx& ctx) {
    scan_requests(args, ctx);
  }
};
FK_OP(gated_linear_attention, GatedLinearAttention);

}  // namespace
}  // namespace fk::reference
