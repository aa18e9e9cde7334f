// SPDX-License-Identifier: Apache-2.0
// D1: tells that its output has no elements, so that nothing is compared
//
// Stopped by: frames and views are checked; the oracle knows the shapes
//
// verdict: wrong
//
// naive: -
#include "../attack.hpp"

namespace {

struct Frame : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    for (int32_t i = 0; i < args.out->ndim; ++i) const_cast<int64_t*>(args.out->shape)[i] = 0;
    const_cast<fk_out*>(args.out)->nbytes = 0;
    const_cast<fk_out*>(args.out)->ndim = 0;
  }
};
FK_OP(silu_and_mul, Frame);

}  // namespace
FK_PLUGIN("d1_frame", "0");
