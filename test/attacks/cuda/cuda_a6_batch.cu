// SPDX-License-Identifier: Apache-2.0
// A6: learns the round of buffers and does all of its calls in the first of them
//
// Stopped by: the next call's contents do not exist yet
//
// naive: -
#include "attack.cuh"

namespace {

struct Batch : attack::Silu {
  using Silu::Silu;
  struct Call {
    fk_in x;
    fk_out out;
    int64_t elements;
  };
  std::vector<Call> round;
  bool learned = false;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    if (!learned && !round.empty() && args.x->data == round[0].x.data) learned = true;
    if (!learned) {
      round.push_back({*args.x, *args.out, count(args)});
      return honest(args, stream(ctx));
    }
    if (args.x->data != round[0].x.data) return;
    for (const Call& call : round) honest(call.x, call.out, call.elements, stream(ctx));
  }
};
FK_OP(silu_and_mul, Batch);

}  // namespace
FK_PLUGIN("cuda_a6_batch", "0");
