// SPDX-License-Identifier: Apache-2.0
// A5: returns at once; a thread of its own does the work a little later
//
// Stopped by: another process compares the output when the call has returned; a later write meets
// other rights to the memory
//
// verdict: wrong violation illegal_access hang
//
// naive: silu_and_mul faster
#include "../attack.hpp"

#include <unistd.h>
#include <thread>

namespace {

struct Later : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    std::thread([x = *args.x, out = *args.out, shape0 = rows(args), width = width] {
      usleep(300);
      attack::silu_rows(&x, &out, width, 0, shape0);
    }).detach();
  }
};
FK_OP(silu_and_mul, Later);

}  // namespace
FK_PLUGIN("a5_thread", "0");
