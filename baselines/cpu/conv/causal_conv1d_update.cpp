// SPDX-License-Identifier: Apache-2.0
// causal_conv1d_update: the kernel of causal_conv1d (causal_conv.hpp) with one token per request.
#include "causal_conv.hpp"

#ifdef FK_CPU_OPS
#include "fk/ops/causal_conv1d_update.h"

namespace fk::cpu {

struct CausalConv1dUpdateOp : CausalConvOp<fk::causal_conv1d_update> {
  using CausalConvOp::CausalConvOp;
  void forward(const op::forward& args, const fk_ctx&) {
    run(args, init_.activation == FK_CAUSAL_CONV1D_UPDATE_ACTIVATION_SILU,
        // Token b belongs to request b.
        [](int64_t b, int64_t& first, int64_t& last, bool&) {
          first = b;
          last = b + 1;
        });
  }
};
FK_OP(causal_conv1d_update, CausalConv1dUpdateOp);

}  // namespace fk::cpu
#endif
