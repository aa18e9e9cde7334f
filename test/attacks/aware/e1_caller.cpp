// SPDX-License-Identifier: Apache-2.0
// E1: does its work only for the line of code that called it first
//
// Stopped by: every timed call is compared
//
// verdict: violation
//
// naive: silu_and_mul faster
#include "../attack.hpp"

#include <execinfo.h>

namespace {

struct Caller : attack::Silu {
  using Silu::Silu;
  static uint64_t caller() {
    void* frames[12] = {};
    const int n = backtrace(frames, 12);
    uint64_t h = 0;
    for (int i = 1; i < std::min(n, 6); ++i) h = h * 31 + reinterpret_cast<uintptr_t>(frames[i]);
    return h;
  }
  void forward(const op::forward& args, const fk_ctx&) {
    const uint64_t here = caller();
    static const uint64_t first = here;
    if (here == first) honest(args);
  }
};
FK_OP(silu_and_mul, Caller);

}  // namespace
FK_PLUGIN("e1_caller", "0");
