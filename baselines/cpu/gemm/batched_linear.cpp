// SPDX-License-Identifier: Apache-2.0
// batched_linear: one product per head. A head's matrix stays in the second-level cache while
// blocks of eight rows multiply it (small_m.hpp). Threads share heads and blocks of rows.
#ifdef FK_CPU_OPS
#include "fk/ops/batched_linear.h"
#include "op.hpp"
#include "small_m.hpp"

namespace fk::cpu {

struct BatchedLinearOp {
  using op = fk::batched_linear;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_float(weights.weight, "weight: f32, bf16 or f16");
    need_float(max.x, "x: f32, bf16 or f16");
    need_float(max.out, "out: f32, bf16 or f16");
    need.scratch = threads_max() * kSmallM * row_floats(init.in_features) * 4;
  }
  BatchedLinearOp(const fk_host& host, const op::init& init, const op::weights& weights)
      : init_(init), weights_(weights), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t rows = args.x->shape[0], blocks = (rows + kRowsBlock - 1) / kRowsBlock;
    const int64_t matrix = init_.in_features * init_.out_features * weights_.weight->dtype.bits / 8;
    share(threads_, init_.num_heads * blocks, init_.num_heads * blocks * matrix,
          [&](int64_t item, int thread) {
            float* copies =
                static_cast<float*>(ctx.scratch) + thread * kSmallM * row_floats(init_.in_features);
            const int64_t begin = item % blocks * kRowsBlock;
            const int64_t end = std::min(rows, begin + kRowsBlock);
            for (int64_t first = begin; first < end; first += kSmallM)
              few_rows(args, item / blocks, first, std::min<int64_t>(kSmallM, end - first), copies);
          });
  }

 private:
  static constexpr int64_t kRowsBlock = 64;  // rows of an item: they share one read of the matrix
  static int64_t row_floats(int64_t k) { return padded(k) + 48; }  // as in product.cpp

  // Multiplies at most kSmallM rows with a head's matrix; `copies` has room for them in float32.
  void few_rows(const op::forward& args, int64_t head, int64_t first, int64_t count,
                float* copies) const {
    const int64_t n = init_.out_features, k = init_.in_features;
    SmallM a{};
    a.weight = data<char>(weights_.weight) + head * n * k * weights_.weight->dtype.bits / 8;
    a.k = k;
    a.m = static_cast<int>(count);
    a.weight_type = type_of(weights_.weight);
    a.out_type = type_of(args.out);
    for (int64_t i = 0; i < count; ++i) {
      const char* x = at(args.x, first + i, head);
      float* copy = copies + i * row_floats(k);
      const bool plain = type_of(args.x) == kF32;
      if (!plain) convert_({x, copy, /*bias=*/nullptr, type_of(args.x), kF32, /*bias_type=*/0}, k);
      a.x[i] = plain ? reinterpret_cast<const float*>(x) : copy;
      a.out[i] = const_cast<char*>(at(fk_as_in(args.out), first + i, head));
    }
    small_m_(a, 0, n);
  }
  // Address of a row's entry for a head.
  static const char* at(const fk_in* view, int64_t row, int64_t head) {
    return data<char>(view) +
           (row * view->strides[0] + head * view->strides[1]) * view->dtype.bits / 8;
  }

  const op::init& init_;
  const op::weights& weights_;
  const int threads_;
  decltype(&generic::small_m) small_m_ = FK_CPU_PICK(small_m);
  decltype(&generic::convert) convert_ = FK_CPU_PICK(convert);
};
FK_OP(batched_linear, BatchedLinearOp);

}  // namespace fk::cpu
#endif
