// SPDX-License-Identifier: Apache-2.0
// moe_grouped_gemm_fp8_block: Fp8Product of fp8_block.hpp for every expert that has rows, in one
// fork. Each thread takes a range of the outputs of all experts.
#ifdef FK_CPU_OPS
#include "fk/ops/moe_grouped_gemm_fp8_block.h"
#include "fp8_block.hpp"

namespace fk::cpu {

struct MoeGroupedGemmFp8BlockOp {
  using op = fk::moe_grouped_gemm_fp8_block;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_float(max.x, "x: f32, bf16 or f16");
    need_float(max.out, "out: f32, bf16 or f16");
    need.scratch = Fp8Product::scratch_bytes(max.row_ids->shape[0], init.in_features);
  }
  MoeGroupedGemmFp8BlockOp(const fk_host& host, const op::init& init, const op::weights& weights)
      : init_(init), weights_(weights), threads_(threads_of(host)) {}
  void prepare(const op::forward& max, const fk_memory&) { rows_max_ = max.row_ids->shape[0]; }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const Fp8Product product(rows_max_, init_.in_features, ctx.scratch);
    const int64_t n = init_.out_features;
    split_by(Fp8Product::kTile, threads_, n, n * init_.in_features * args.row_ids->shape[0],
             [&](int64_t begin, int64_t end, int thread) {
               for (int64_t e = 0; e < init_.num_experts; ++e)
                 expert(product, args, e, begin, end, thread);
             });
  }

 private:
  // Columns [begin, end) of all rows of expert e.
  void expert(const Fp8Product& product, const op::forward& args, int64_t e, int64_t begin,
              int64_t end, int thread) const {
    const auto* offsets = data<int32_t>(args.expert_offsets);
    const auto* ids = data<int32_t>(args.row_ids);
    const int64_t n = init_.out_features, k = init_.in_features;
    const fk_in* scales = weights_.weight_scale_inv;
    const Fp8Matrix matrix{data<uint8_t>(weights_.weight) + e * n * k,
                           data<float>(scales) + e * scales->strides[0],
                           k,
                           init_.block_n,
                           init_.block_k,
                           scales->shape[2]};
    for (int64_t first = offsets[e]; first < offsets[e + 1]; first += Fp8Product::kRowsBlock) {
      Fp8Product::Rows rows{};
      rows.count = std::min<int64_t>(Fp8Product::kRowsBlock, offsets[e + 1] - first);
      rows.x_type = type_of(args.x);
      rows.out_type = type_of(args.out);
      rows.quantize = init_.quantize_input != 0;
      for (int64_t i = 0; i < rows.count; ++i) {
        const int64_t row = ids[first + i];
        rows.x[i] = data<char>(args.x) + row / init_.top_k * k * bytes_of(rows.x_type);
        rows.out[i] = data<char>(args.out) + row * n * bytes_of(rows.out_type);
      }
      product.multiply(matrix, rows, begin, end, thread);
    }
  }

  const op::init& init_;
  const op::weights& weights_;
  const int threads_;
  int64_t rows_max_ = 0;
};
FK_OP(moe_grouped_gemm_fp8_block, MoeGroupedGemmFp8BlockOp);

}  // namespace fk::cpu
#endif
