// SPDX-License-Identifier: Apache-2.0
// linear_fp8_block: Fp8Product of fp8_block.hpp as an op. It takes kRowsBlock rows of x at a time;
// threads share the rows of the weight.
#ifdef FK_CPU_OPS
#include "fk/ops/linear_fp8_block.h"
#include "fp8_block.hpp"

namespace fk::cpu {

struct LinearFp8BlockOp {
  using op = fk::linear_fp8_block;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    if (weights.bias.or_null) need_float(weights.bias.or_null, "bias: f32, bf16 or f16");
    need_float(max.x, "x: f32, bf16 or f16");
    need_float(max.out, "out: f32, bf16 or f16");
    need.scratch = Fp8Product::scratch_bytes(max.x->shape[0], init.in_features);
  }
  LinearFp8BlockOp(const fk_host& host, const op::init& init, const op::weights& weights)
      : init_(init), weights_(weights), threads_(threads_of(host)) {}
  void prepare(const op::forward& max, const fk_memory&) { rows_max_ = max.x->shape[0]; }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const Fp8Product product(rows_max_, init_.in_features, ctx.scratch);
    const Fp8Matrix matrix{data<uint8_t>(weights_.weight),
                           data<float>(weights_.weight_scale_inv),
                           init_.in_features,
                           init_.block_n,
                           init_.block_k,
                           weights_.weight_scale_inv->shape[1]};
    const int64_t n = init_.out_features, m = args.x->shape[0];
    for (int64_t first = 0; first < m; first += Fp8Product::kRowsBlock) {
      Fp8Product::Rows rows{};
      rows.count = std::min(Fp8Product::kRowsBlock, m - first);
      rows.x_type = type_of(args.x);
      rows.out_type = type_of(args.out);
      rows.quantize = init_.quantize_input != 0;
      rows.bias_or_null = weights_.bias.or_null;
      for (int64_t i = 0; i < rows.count; ++i) {
        rows.x[i] = data<char>(args.x) + (first + i) * args.x->strides[0] * bytes_of(rows.x_type);
        rows.out[i] = data<char>(args.out) + (first + i) * n * bytes_of(rows.out_type);
      }
      split_by(Fp8Product::kTile, threads_, n, n * init_.in_features * rows.count,
               [&](int64_t begin, int64_t end, int thread) {
                 product.multiply(matrix, rows, begin, end, thread);
               });
    }
  }

 private:
  const op::init& init_;
  const op::weights& weights_;
  const int threads_;
  int64_t rows_max_ = 0;
};
FK_OP(linear_fp8_block, LinearFp8BlockOp);

}  // namespace fk::cpu
#endif
