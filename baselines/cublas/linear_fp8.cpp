// SPDX-License-Identifier: Apache-2.0
// linear_fp8 by cuBLASLt: one scale each for x and weight, or vectors of scales of rows on both
// sides. If only one side has a vector, the other side's scales are repeated.
#include "fk/ops/linear_fp8.h"
#include "lt.hpp"
#include "quantize.hpp"

namespace {
using namespace fkb;

class LinearFp8 {
 public:
  using op = fk::linear_fp8;
  // The tensor cores add f8e4m3 products with fewer bits than float32 has.
  static constexpr fk_claims claims{FK_END(fk_claims, sm), FK_CUDA, FK_GRAPH_ALWAYS, 1, 0, FK_ACCUMULATE_REDUCED, 0, 1, kSm};
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max, fk_need& need) {
    if (init.in_features % 16 || init.out_features % 16) throw fk::unsupported{"features must be multiples of 16"};
    const bool vectors = has_vectors(init, max.x->shape[0]);
    if (vectors && CUBLAS_VERSION < 120900) throw fk::unsupported{"scales of rows: built with a cuBLAS older than 12.9"};
    if (const fk_in* bias = weights.bias.or_null) {
      if (vectors) throw fk::unsupported{"bias: not beside scales of rows"};
      if (FK_DTYPE(bias) == FK_F32 || FK_DTYPE(bias) != FK_DTYPE(max.out)) throw fk::unsupported{"bias: float16 or bfloat16, the dtype of out"};
    }
    need.scratch = kWorkspace;
    if (!vectors) return;
    if (init.x_group_rows != 1) need.scratch += max.x->shape[0] * 4;
    if (init.weight_group_rows != 1) need.packed = init.out_features * 4;
  }
  LinearFp8(const fk_host&, const op::init& init, const op::weights& weights) : init_(init), weights_(weights) {}
  void prepare(const op::forward& max, const fk_memory& memory) {
    vectors_ = has_vectors(init_, max.x->shape[0]);
    const void* scales = weights_.weight_scale->data;
    if (memory.packed) {
      if (!memory.packed_ready) {
        const auto stream = static_cast<cudaStream_t>(memory.stream);
        repeat(fk::data<float>(weights_.weight_scale), init_.weight_group_rows, static_cast<float*>(memory.packed), init_.out_features, stream);
        check(cudaStreamSynchronize(stream), "scales");
      }
      scales = memory.packed;
    }
    product_ = std::make_unique<Product>();
#if CUBLAS_VERSION >= 120900
    if (vectors_) {
      product_->set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
      product_->set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
    }
#endif
    product_->set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scales);
    product_->set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scales);  // until forward() sets it, as it must not be null
    if (const fk_in* bias = weights_.bias.or_null) {
      product_->set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      product_->set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias->data);
      product_->set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(bias));
    }
    // For the largest and the smallest step.
    product_->find(problem(max.x->shape[0], max));
    product_->find(problem(1, max));
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t m = a.x->shape[0];
    if (!m) return;
    const void* scales = a.x_scale->data;
    if (vectors_ && init_.x_group_rows != 1) {
      auto* repeated = reinterpret_cast<float*>(static_cast<char*>(ctx.scratch) + kWorkspace);
      repeat(fk::data<float>(a.x_scale), init_.x_group_rows, repeated, m, static_cast<cudaStream_t>(ctx.stream));
      scales = repeated;
    }
    product_->set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scales);
    product_->run(problem(m, a), weights_.weight->data, a.x->data, a.out->data, ctx);
  }

 private:
  // One scale for all of x and one for the weight need no vectors.
  static bool has_vectors(const op::init& init, int64_t rows_max) {
    return init.x_group_rows < rows_max || init.x_group_rows == 1 || init.weight_group_rows < init.out_features;
  }
  Problem problem(int64_t m, const op::forward& a) const {
    const int64_t k = init_.in_features, n = init_.out_features;
    return {{CUDA_R_8F_E4M3, k, n, k}, {CUDA_R_8F_E4M3, k, m, k}, {type_of(fk_as_in(a.out)), n, m, n}};
  }
  const op::init& init_;
  const op::weights& weights_;
  bool vectors_ = false;
  std::unique_ptr<Product> product_;
};
FK_OP(linear_fp8, LinearFp8);

}  // namespace
