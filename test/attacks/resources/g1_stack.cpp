// SPDX-License-Identifier: Apache-2.0
// G1: calls itself until the stack is used up
//
// Stopped by: a crash ends the worker, not the judge
//
// verdict: crashed
//
// naive: -
#include "../attack.hpp"

namespace {

struct Stack : attack::Silu {
  using Silu::Silu;
  static int deeper(volatile char* above, int depth) {
    volatile char block[4096];
    block[0] = above ? above[0] : 1;
    return depth < (1 << 20) ? deeper(block, depth + 1) + block[0] : block[0];
  }
  void forward(const op::forward& args, const fk_ctx&) {
    honest(args);
    if (deeper(nullptr, 0) == 5) fill(args, 0);
  }
};
FK_OP(silu_and_mul, Stack);

}  // namespace
FK_PLUGIN("g1_stack", "0");
