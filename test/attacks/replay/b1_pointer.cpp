// SPDX-License-Identifier: Apache-2.0
// B1: an input at a known address has a known answer: such a call returns at once
//
// Stopped by: fresh contents at known addresses, outputs poisoned and compared in every timed call
//
// verdict: wrong
//
// naive: silu_and_mul faster
#include "../attack.hpp"

namespace {

struct Pointer : attack::Silu {
  using Silu::Silu;
  std::vector<const void*> known;
  void forward(const op::forward& args, const fk_ctx&) {
    if (std::find(known.begin(), known.end(), args.x->data) != known.end()) return;
    honest(args);
    known.push_back(args.x->data);
  }
};
FK_OP(silu_and_mul, Pointer);

}  // namespace
FK_PLUGIN("b1_pointer", "0");
