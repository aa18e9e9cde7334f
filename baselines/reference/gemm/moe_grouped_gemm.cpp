// SPDX-License-Identifier: Apache-2.0
// moe_grouped_gemm: each assignment's row of x times its expert's matrix.
#define FK_MOE_GROUPED_GEMM_EDITION 2  // with the fields that the contract marks `since: 2`
#include "fk/ops/moe_grouped_gemm.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct MoeGroupedGemm : Base<moe_grouped_gemm> {
  using Base::Base;
  struct Rows {
    double *x, *out;
    Rows(Scratch& s, const op::init& i) : x(s.take(i.in_features)), out(s.take(i.out_features)) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(weights.weight, weights.bias.or_null, max.x, max.out);
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
        matrix_vector(weights.weight, offset(weights.weight, e), init.out_features,
                      init.in_features, nullptr, row.x, row.out);
        if (const fk_in* bias = weights.bias.or_null)
          add_scaled(bias, offset(bias, e), init.out_features, 1, row.out);
        store(args.out, offset(args.out, id), init.out_features, row.out);
      }
    }
  }
};
FK_OP(moe_grouped_gemm, MoeGroupedGemm);

}  // namespace
}  // namespace fk::reference
