// SPDX-License-Identifier: Apache-2.0
// moe_grouped_gemm_mxfp4: each assignment's row of x times its expert's matrix (mxfp4.hpp).
#include "fk/ops/moe_grouped_gemm_mxfp4.h"
#include "mxfp4.hpp"

namespace fk::reference {
namespace {

struct MoeGroupedGemmMxfp4 : Base<moe_grouped_gemm_mxfp4> {
  using Base::Base;
  struct Rows {
    double *x, *out;
    Rows(Scratch& s, const op::init& i) : x(s.take(i.in_features)), out(s.take(i.out_features)) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(weights.bias.or_null, max.x, max.out);
    if (init.in_features % 32) throw unsupported{"in_features is not a multiple of 32"};
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, init);
    for (int64_t e = 0; e < init.num_experts; ++e) {
      const int64_t last = index<int32_t>(args.expert_offsets, e + 1);
      for (int64_t j = index<int32_t>(args.expert_offsets, e); j < last; ++j) {
        const int64_t id = index<int32_t>(args.row_ids, j);
        load(args.x, offset(args.x, id / init.top_k), init.in_features, row.x);
        mxfp4_matrix_vector(weights.weight, weights.weight_scale, weights.bias, e,
                            init.out_features, init.in_features, row.x, row.out);
        store(args.out, offset(args.out, id), init.out_features, row.out);
      }
    }
  }
};
FK_OP(moe_grouped_gemm_mxfp4, MoeGroupedGemmMxfp4);

}  // namespace
}  // namespace fk::reference
