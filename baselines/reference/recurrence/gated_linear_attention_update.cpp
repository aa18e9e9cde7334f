// SPDX-License-Identifier: Apache-2.0
// gated_linear_attention_update: one step of GatedHeads of matrix_state.hpp, for each request.
#include "fk/ops/gated_linear_attention_update.h"
#include "matrix_state.hpp"

namespace fk::reference {
namespace {

struct GatedLinearAttentionUpdate : GatedHeads<gated_linear_attention_update> {
  using GatedHeads::GatedHeads;
  void forward(const fk::gated_linear_attention_update::forward& args, const fk_ctx& ctx) {
    scan_tokens(args, ctx);
  }
};
FK_OP(gated_linear_attention_update, GatedLinearAttentionUpdate);

}  // namespace
}  // namespace fk::reference
