// SPDX-License-Identifier: Apache-2.0
// matmul_nt: blocks of eight rows of x times a part of y's rows (small_m.hpp). A part of y stays in
// the second-level cache for all rows of an item.
#ifdef FK_CPU_OPS
#include "fk/ops/matmul_nt.h"
#include "op.hpp"
#include "small_m.hpp"

namespace fk::cpu {

struct MatmulNtOp {
  using op = fk::matmul_nt;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_float(max.x, "x: f32, bf16 or f16");
    need_same(max.x, max.y, "y: of x's type");
    need_float(max.out, "out: f32, bf16 or f16");
    need.scratch = threads_max() * kSmallM * row_floats(init.size) * 4;
  }
  MatmulNtOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t k = init_.size, m = args.out->shape[1], n = args.out->shape[2];
    const int64_t row_blocks = (m + kRowsBlock - 1) / kRowsBlock;
    const int64_t column_blocks = (n + kColumnsBlock - 1) / kColumnsBlock;
    const int64_t each = row_blocks * column_blocks;
    share(threads_, args.out->shape[0] * each, args.out->shape[0] * m * n * k / 4,
          [&](int64_t item, int thread) {
            const int64_t b = item / each, row = item % each / column_blocks * kRowsBlock;
            const int64_t column = item % column_blocks * kColumnsBlock;
            float* copies = static_cast<float*>(ctx.scratch) + thread * kSmallM * row_floats(k);
            for (int64_t first = row; first < std::min(m, row + kRowsBlock); first += kSmallM)
              few_rows(args, b, first, std::min<int64_t>(kSmallM, m - first), column, copies);
          });
  }

 private:
  // Rows and columns of an item.
  static constexpr int64_t kRowsBlock = 64, kColumnsBlock = 64 * kSmallColumns;
  static int64_t row_floats(int64_t k) { return padded(k) + 48; }  // as in product.cpp

  // Multiplies at most kSmallM rows with the columns from `column` on.
  void few_rows(const op::forward& args, int64_t b, int64_t first, int64_t count, int64_t column,
                float* copies) const {
    const int64_t k = init_.size, m = args.out->shape[1], n = args.out->shape[2];
    const int type = type_of(args.x), out_type = type_of(args.out);
    SmallM a{};
    a.weight = data<char>(args.y) + b * n * k * bytes_of(type);
    a.k = k;
    a.m = static_cast<int>(count);
    a.weight_type = type;
    a.out_type = out_type;
    for (int64_t i = 0; i < count; ++i) {
      const char* x = data<char>(args.x) + (b * m + first + i) * k * bytes_of(type);
      float* copy = copies + i * row_floats(k);
      if (type != kF32) convert_({x, copy, /*bias=*/nullptr, type, kF32, /*bias_type=*/0}, k);
      a.x[i] = type == kF32 ? reinterpret_cast<const float*>(x) : copy;
      a.out[i] = data<char>(args.out) + (b * m + first + i) * n * bytes_of(out_type);
    }
    small_m_(a, column, std::min(n, column + kColumnsBlock));
  }

  const op::init& init_;
  const int threads_;
  decltype(&generic::small_m) small_m_ = FK_CPU_PICK(small_m);
  decltype(&generic::convert) convert_ = FK_CPU_PICK(convert);
};
FK_OP(matmul_nt, MatmulNtOp);

}  // namespace fk::cpu
#endif
