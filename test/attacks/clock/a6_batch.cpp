// SPDX-License-Identifier: Apache-2.0
// A6: learns the round of buffers and, when it begins anew, does all of its calls in the first one,
// outside most samples
//
// Stopped by: the next call's contents do not exist yet; order and number of calls are not fixed
//
// naive: silu_and_mul faster; needs: clock
#include "../attack.hpp"

namespace {

struct Batch : attack::Silu {
  using Silu::Silu;
  struct Call {
    fk_in x;
    fk_out out;
    int64_t rows;
  };
  std::vector<Call> round;
  bool learned = false;
  void forward(const op::forward& args, const fk_ctx&) {
    if (!learned && !round.empty() && args.x->data == round[0].x.data) learned = true;
    if (!learned) {
      round.push_back({*args.x, *args.out, rows(args)});
      return honest(args);
    }
    if (args.x->data != round[0].x.data) return;
    for (const Call& call : round) attack::silu_rows(&call.x, &call.out, width, 0, call.rows);
  }
};
FK_OP(silu_and_mul, Batch);

}  // namespace
FK_PLUGIN("a6_batch", "0");
