// SPDX-License-Identifier: Apache-2.0
// C8: takes every width and is right for those of the contract's cases, which everybody can read.
// For all others it computes only the first half of each row
//
// Stopped by: one case is called with a width that nobody can foresee, if the candidate takes it
//
// verdict: wrong
//
// naive: silu_and_mul accepted
//
// work: broken
//
// size: ci
#include "../attack.hpp"

namespace {

struct KnownWidths : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    for (const int64_t known : {3, 17, 32, 1024, 14336, 65551})
      if (width == known) return honest(args);
    fill(args, 0);
    std::vector<float> gate(static_cast<size_t>(width / 2)), up(gate);
    for (int64_t t = 0; t < rows(args); ++t) {
      fk::load(args.x, t * 2 * width, width / 2, gate.data());
      fk::load(args.x, t * 2 * width + width, width / 2, up.data());
      for (size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
      fk::store(args.out, t * width, width / 2, gate.data());
    }
  }
};
FK_OP(silu_and_mul, KnownWidths);

}  // namespace
FK_PLUGIN("c8_known_widths", "0");
