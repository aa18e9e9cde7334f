// SPDX-License-Identifier: Apache-2.0
// all_gather_linear: every rank shares its rows of x (Ranked in collective.hpp); each then
// multiplies the rows of all ranks with the weight.
#include "fk/ops/all_gather_linear.h"
#include "collective.hpp"

namespace fk::reference {
namespace {

struct AllGatherLinear : Ranked<all_gather_linear> {
  using Ranked::Ranked;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_comm(init.comm);
    need_floats(weights.weight, max.x, max.out);
    need.scratch = init.out_features * 8;
    need_buffer(init.comm, buffer_bytes(init, max), need);
  }
  static int64_t buffer_bytes(const op::init& init, const op::forward& max) {
    return max.x->shape[0] * init.in_features * 8;
  }
  void prepare(const op::forward& max, const fk_memory& memory) {
    make_buffer(buffer_bytes(init, max), memory);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t here = args.x->shape[0], width = init.in_features;
    load(args.x, 0, here * width, mine<double>());
    share(ctx, here * width * 8);
    double* out = Scratch(ctx).take(init.out_features);
    for (int64_t m = 0; m < comm()->size * here; ++m) {
      matrix_vector(weights.weight, 0, init.out_features, width, nullptr,
                    shared_by<double>(m / here) + m % here * width, out);
      store(args.out, offset(args.out, m), init.out_features, out);
    }
    done(ctx);
  }
};
FK_OP(all_gather_linear, AllGatherLinear);

}  // namespace
}  // namespace fk::reference
