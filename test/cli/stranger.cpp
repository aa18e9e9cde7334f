// SPDX-License-Identifier: Apache-2.0
// silu_and_mul whose words steer a terminal: as it refuses, fails and prints (strangers.py).
#include <cstdio>
#include <stdexcept>

#include "fk/ops/silu_and_mul.h"

namespace {

// Clears the screen, sets the window's title, turns the text after it around; the last one is a
// control sequence in one character.
constexpr const char* kWords =
    "\x1b[2J\x1b]0;mine\x07\xE2\x80\xAE"
    "around\xC2\x9B"
    "31m\r";

struct Stranger {
  using op = fk::silu_and_mul;
  static constexpr fk_claims claims = fk::cpu_claims;
  static void supports(const op::init& init, const op::weights&, const op::forward&, fk_need&) {
    std::printf("printed %s\n", kWords);
    std::fprintf(stderr, "printed %s\n", kWords);
    if (init.size % 2) throw fk::unsupported{kWords};
  }
  Stranger(const fk_host&, const op::init&, const op::weights&) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward&, const fk_ctx&) { throw std::runtime_error(kWords); }
};
FK_OP(silu_and_mul, Stranger);

}  // namespace
FK_PLUGIN("stranger", "0");
