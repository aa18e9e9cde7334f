// SPDX-License-Identifier: Apache-2.0
// D3: turns denormals off when it is loaded, as start-up code does that -ffast-math links
//
// work: broken
//
// Stopped by: modes are compared around loading
//
// verdict: load
//
// naive: silu_and_mul accepted
#include "../attack.hpp"
#include "../flush.hpp"

namespace {

__attribute__((constructor)) void start() { attack::flush_denormals(); }

struct FlushLoad : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) { honest(args); }
};
FK_OP(silu_and_mul, FlushLoad);

}  // namespace
FK_PLUGIN("d3_flush_load", "0");
