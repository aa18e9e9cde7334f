// SPDX-License-Identifier: Apache-2.0
// A6: learns in which order the buffers repeat, and does all calls of a round in the first one,
// outside most samples
//
// Stopped by: the next call's contents do not exist yet; order and number of calls are not fixed
//
// verdict: illegal_access wrong
//
// naive: silu_and_mul faster
#include "../attack.hpp"

namespace {

// The calls of all instances: a judge may make one for every set of buffers.
struct Call {
  fk_in x;
  fk_out out;
  int64_t rows;
};
std::vector<Call> round_of_calls;
bool learned = false;

struct Batch : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    for (size_t i = 0; !learned && i < round_of_calls.size(); ++i) {
      if (args.x->data != round_of_calls[i].x.data) continue;
      round_of_calls.erase(round_of_calls.begin(), round_of_calls.begin() + static_cast<long>(i));
      learned = true;
    }
    if (!learned) {
      round_of_calls.push_back({*args.x, *args.out, rows(args)});
      return honest(args);
    }
    if (args.x->data != round_of_calls[0].x.data) return;
    for (const Call& call : round_of_calls)
      attack::silu_rows(&call.x, &call.out, width, 0, call.rows);
  }
};
FK_OP(silu_and_mul, Batch);

}  // namespace
FK_PLUGIN("a6_batch", "0");
