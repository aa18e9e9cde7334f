// SPDX-License-Identifier: Apache-2.0
// B4: writes every buffer once and leaves the old answer there
//
// Stopped by: outputs are poisoned before every call and compared after it
//
// verdict: wrong
//
// naive: silu_and_mul faster
#include "../attack.cuh"

namespace {

struct Noop : attack::Silu {
  using Silu::Silu;
  std::vector<const void*> written;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    if (std::find(written.begin(), written.end(), args.out->data) != written.end()) return;
    written.push_back(args.out->data);
    honest(args, stream(ctx));
  }
};
FK_OP(silu_and_mul, Noop);

}  // namespace
FK_PLUGIN("cuda_b4_noop", "0");
