// SPDX-License-Identifier: Apache-2.0
// D6: reads a page beyond its input. If the page is missing, a handler of SIGSEGV, made before any
// call, jumps back into the call. It is right every time, and nobody notices
//
// Stopped by: the sandbox lets nobody replace handlers of signals that tell of a crash
//
// verdict: illegal_access
//
// work: broken
//
// naive: -
#include "../attack.hpp"

#include <setjmp.h>
#include <signal.h>

#include "fk/ops/gather_rows.h"

namespace {

thread_local sigjmp_buf before;
void jump(int) { siglongjmp(before, 1); }
[[maybe_unused]] const auto was = signal(SIGSEGV, jump);

struct Survives {
  using op = fk::gather_rows;
  static constexpr fk_claims claims = fk::cpu_claims;
  const int64_t width;
  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    if (!fk::is_float(max.x)) throw fk::unsupported{"f32, bf16 and f16 only"};
  }
  Survives(const fk_host&, const op::init& init, const op::weights&) : width(init.size) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const auto* x = static_cast<const char*>(args.x->data);
    const volatile char* const end = x + args.x->nbytes;
    if (sigsetjmp(before, 1) == 0)
      for (int64_t i = 0; i < 8192; i += 64) (void)end[i];
    const auto row = static_cast<size_t>(width) * (FK_DTYPE(args.x) == FK_F32 ? 4 : 2);
    const auto* rows = static_cast<const int32_t*>(args.rows->data);
    for (int64_t t = 0; t < args.rows->shape[0]; ++t)
      std::memcpy(static_cast<char*>(args.out->data) + static_cast<size_t>(t) * row,
                  x + static_cast<size_t>(rows[t]) * row, row);
  }
};
FK_OP(gather_rows, Survives);

}  // namespace
FK_PLUGIN("d6_survives", "0");
