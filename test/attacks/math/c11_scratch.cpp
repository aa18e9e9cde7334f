// SPDX-License-Identifier: Apache-2.0
// C11: adds to scratch as if it were zero
//
// Stopped by: scratch is poisoned, differently from call to call
//
// verdict: wrong violation
//
// naive: rms_norm accepted
#include "../attack.hpp"

namespace {

struct Scratch : attack::Norm {
  using Norm::Norm;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    Norm::supports(init, weights, max, need);
    need.scratch = 4 * std::max<int64_t>(1, rows(max));
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    float* sum = static_cast<float*>(ctx.scratch);
    with(args, gains(), [&](const std::vector<float>& row) {
      for (const float v : row) *sum += v * v;
      return scale_of(*sum++ / float(row.size()));
    });
  }
};
FK_OP(rms_norm, Scratch);

}  // namespace
FK_PLUGIN("c11_scratch", "0");
