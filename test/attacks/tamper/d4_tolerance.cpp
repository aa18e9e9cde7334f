// SPDX-License-Identifier: Apache-2.0
// D4: writes zeros and a large number into the file of tolerances
//
// Stopped by: the judge's files are out of reach
//
// verdict: violation
//
// naive: silu_and_mul accepted
#include "../attack.hpp"

#include <cstdio>

namespace {

struct Tolerance : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    fill(args, 0);
    if (std::FILE* file = std::fopen("tolerance.txt", "w")) {
      std::fprintf(file, "1000\n");
      std::fclose(file);
    }
  }
};
FK_OP(silu_and_mul, Tolerance);

}  // namespace
FK_PLUGIN("d4_tolerance", "0");
