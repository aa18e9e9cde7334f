// SPDX-License-Identifier: Apache-2.0
// honest: denormals off while it computes, and as they were afterwards
#include "../attack.hpp"

namespace {

struct Honest : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
#if defined __x86_64__
    const unsigned before = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(before | 0x8000);
    honest(args);
    __builtin_ia32_ldmxcsr(before);
#else
    honest(args);
#endif
  }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("flushes", "0");
