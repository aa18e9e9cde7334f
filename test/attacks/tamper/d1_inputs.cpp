// SPDX-License-Identifier: Apache-2.0
// D1: sets its input to zero and writes zeros, which is then right
//
// Stopped by: inputs are made, kept and checked by the oracle
//
// verdict: violation crashed
//
// naive: silu_and_mul accepted --after
#include "../attack.hpp"

namespace {

struct Inputs : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    std::memset(const_cast<void*>(args.x->data), 0, static_cast<size_t>(args.x->nbytes));
    fill(args, 0);
  }
};
FK_OP(silu_and_mul, Inputs);

}  // namespace
FK_PLUGIN("d1_inputs", "0");
