// SPDX-License-Identifier: Apache-2.0
// D3: turns denormals off in its first call, and leaves them off for whoever computes after it
//
// work: broken
//
// Stopped by: modes are compared around calls, in the race as well
//
// verdict: violation
//
// naive: rms_norm accepted
#include "../attack.hpp"
#include "../flush.hpp"

namespace {

struct Flush : attack::Norm {
  using Norm::Norm;
  void forward(const op::forward& args, const fk_ctx&) {
    attack::flush_denormals();
    honest(args);
  }
};
FK_OP(rms_norm, Flush);

}  // namespace
FK_PLUGIN("d3_flush", "0");
