// SPDX-License-Identifier: Apache-2.0
// moe_grouped_gemm_fp8_block: each assignment's row of x times its expert's matrix (fp8_block.hpp).
#include "fk/ops/moe_grouped_gemm_fp8_block.h"
#include "fp8_block.hpp"

namespace fk::reference {
namespace {

struct MoeGroupedGemmFp8Block : Base<moe_grouped_gemm_fp8_block> {
  using Base::Base;
  struct Rows {
    double *x, *quantized, *out;
    Rows(Scratch& s, const op::init& i)
        : x(s.take(i.in_features)), quantized(s.take(i.in_features)), out(s.take(i.out_features)) {}
  };
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.x, max.out);
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, init);
    const Fp8Block block{init.block_n, init.block_k, init.quantize_input != 0};
    for (int64_t e = 0; e < init.num_experts; ++e) {
      const int64_t last = index<int32_t>(args.expert_offsets, e + 1);
      for (int64_t j = index<int32_t>(args.expert_offsets, e); j < last; ++j) {
        const int64_t id = index<int32_t>(args.row_ids, j);
        load(args.x, offset(args.x, id / init.top_k), init.in_features, row.x);
        scaled_matrix_vector(weights.weight, offset(weights.weight, e), weights.weight_scale_inv,
                             offset(weights.weight_scale_inv, e), block, init.out_features,
                             init.in_features, nullptr, row.x, row.quantized, row.out);
        store(args.out, offset(args.out, id), init.out_features, row.out);
      }
    }
  }
};
FK_OP(moe_grouped_gemm_fp8_block, MoeGroupedGemmFp8Block);

}  // namespace
}  // namespace fk::reference
