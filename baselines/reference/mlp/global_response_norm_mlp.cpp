// SPDX-License-Identifier: Apache-2.0
// global_response_norm_mlp: response_mlp() of image.hpp for each image.
#include "fk/ops/global_response_norm_mlp.h"
#include "image.hpp"

namespace fk::reference {
namespace {

struct GlobalResponseNormMlp : Base<global_response_norm_mlp> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    need_floats(w.fc1, w.fc1_bias.or_null, w.grn_weight, w.grn_bias, w.fc2, w.fc2_bias.or_null,
                max.x, max.out);
    need.scratch = scratch_bytes<ResponseMlpRows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const ResponseMlpRows rows(scratch, init, args);
    const bool tanh_form = init.approximate == FK_GLOBAL_RESPONSE_NORM_MLP_APPROXIMATE_TANH;
    const int64_t channels = init.hidden_size;
    for (int64_t b = 0; b < args.x->shape[0]; ++b) {
      const int64_t first = offset(args.x, b);
      response_mlp(
          init, weights, tanh_form, args.x->shape[1] * args.x->shape[2], rows,
          [&](int64_t p, double* x) { load(args.x, first + p * channels, channels, x); },
          [&](int64_t p, const double* out) {
            store(args.out, offset(args.out, b) + p * channels, channels, out);
          });
    }
  }
};
FK_OP(global_response_norm_mlp, GlobalResponseNormMlp);

}  // namespace
}  // namespace fk::reference
