// SPDX-License-Identifier: Apache-2.0
// B4: every buffer is written once; afterwards the old answer stays where it is
//
// Stopped by: outputs are poisoned before every call and compared after it
//
// verdict: wrong
//
// naive: silu_and_mul faster
#include "../attack.hpp"

namespace {

struct Noop : attack::Silu {
  using Silu::Silu;
  std::vector<const void*> written;
  void forward(const op::forward& args, const fk_ctx&) {
    if (std::find(written.begin(), written.end(), args.out->data) != written.end()) return;
    written.push_back(args.out->data);
    honest(args);
  }
};
FK_OP(silu_and_mul, Noop);

}  // namespace
FK_PLUGIN("b4_noop", "0");
