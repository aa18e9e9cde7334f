// SPDX-License-Identifier: Apache-2.0
// linear_fp8: rows of x become float32 with their scales; Fp8Product of fp8_block.hpp does the
// rest. It takes kRowsBlock rows of x at a time; threads share the rows of the weight.
#ifdef FK_CPU_OPS
#include "fk/ops/linear_fp8.h"
#include "fp8_block.hpp"

namespace fk::cpu {

struct LinearFp8Op {
  using op = fk::linear_fp8;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    if (weights.bias.or_null) need_float(weights.bias.or_null, "bias: f32, bf16 or f16");
    need_float(max.out, "out: f32, bf16 or f16");
    need.scratch = x_bytes(init) + Fp8Product::scratch_bytes(max.x->shape[0], init.in_features);
  }
  LinearFp8Op(const fk_host& host, const op::init& init, const op::weights& weights)
      : init_(init), weights_(weights), threads_(threads_of(host)) {}
  void prepare(const op::forward& max, const fk_memory&) { rows_max_ = max.x->shape[0]; }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t n = init_.out_features, k = init_.in_features, m = args.x->shape[0];
    auto* wide = static_cast<float*>(ctx.scratch);  // [kRowsBlock, k]
    const Fp8Product product(rows_max_, k, static_cast<char*>(ctx.scratch) + x_bytes(init_));
    const Fp8Matrix x{
        data<uint8_t>(args.x), data<float>(args.x_scale), k, init_.x_group_rows, k, 1};
    const Fp8Matrix weight{data<uint8_t>(weights_.weight),
                           data<float>(weights_.weight_scale),
                           k,
                           init_.weight_group_rows,
                           k,
                           1};
    for (int64_t first = 0; first < m; first += Fp8Product::kRowsBlock) {
      Fp8Product::Rows rows{};
      rows.count = std::min(Fp8Product::kRowsBlock, m - first);
      rows.x_type = kF32;
      rows.out_type = type_of(args.out);
      rows.bias_or_null = weights_.bias.or_null;
      rows_(x, first, first + rows.count, wide, k);
      for (int64_t i = 0; i < rows.count; ++i) {
        rows.x[i] = wide + i * k;
        rows.out[i] = data<char>(args.out) + (first + i) * n * bytes_of(rows.out_type);
      }
      split_by(Fp8Product::kTile, threads_, n, n * k * rows.count,
               [&](int64_t begin, int64_t end, int thread) {
                 product.multiply(weight, rows, begin, end, thread);
               });
    }
  }

 private:
  static int64_t x_bytes(const op::init& init) {
    return 4 * padded(Fp8Product::kRowsBlock * init.in_features);
  }

  const op::init& init_;
  const op::weights& weights_;
  const int threads_;
  int64_t rows_max_ = 0;
  decltype(&generic::fp8_rows) rows_ = FK_CPU_PICK(fp8_rows);
};
FK_OP(linear_fp8, LinearFp8Op);

}  // namespace fk::cpu
#endif
