// SPDX-License-Identifier: Apache-2.0
// A8: writes zeros; what it registered with atexit() prints a better verdict and leaves with status
// 0
//
// Stopped by: a worker's words and its status are no verdict
//
// verdict: wrong
//
// naive: silu_and_mul faster
#include "../attack.hpp"

#include <unistd.h>
#include <cstdlib>

namespace {

void last_words() {
  const char text[] = "naive: correct, speedup 100.00\nPASS\n";
  if (write(1, text, sizeof text - 1) > 0) _exit(0);
}
struct AtExit : attack::Silu {
  AtExit(const fk_host& host, const op::init& init, const op::weights& weights)
      : Silu(host, init, weights) {
    std::atexit(last_words);
  }
  void forward(const op::forward& args, const fk_ctx&) { fill(args, 0); }
};
FK_OP(silu_and_mul, AtExit);

}  // namespace
FK_PLUGIN("a8_atexit", "0");
