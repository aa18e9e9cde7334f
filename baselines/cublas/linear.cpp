// SPDX-License-Identifier: Apache-2.0
// linear by cuBLASLt, with the bias in the epilogue.
#include "fk/ops/linear.h"
#include "lt.hpp"

namespace {
using namespace fkb;

// Smaller products take no time, or are bound by reading the weight.
constexpr int64_t kTunedRows = 17, kTunedWeight = int64_t{4} << 20;

class Linear {
 public:
  using op = fk::linear;
  // For another M, another algorithm may run.
  static constexpr fk_claims claims{FK_END(fk_claims, sm), FK_CUDA, FK_GRAPH_ALWAYS, 1, 0, FK_ACCUMULATE_F32, 0, 1, kSm};
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max, fk_need& need) {
    const int x = FK_DTYPE(max.x), out = FK_DTYPE(max.out);
    if (x != FK_DTYPE(weights.weight)) throw fk::unsupported{"x: the dtype of the weight only"};
    if (out != x && out != FK_F32) throw fk::unsupported{"out: the dtype of x, or float32"};
    if (weights.bias.or_null && FK_DTYPE(weights.bias.or_null) != out) throw fk::unsupported{"bias: the dtype of out only"};
    const int64_t step = elements_of_16_bytes(max.x);
    if (init.in_features % step || init.out_features % step || max.x->strides[0] % step)
      throw fk::unsupported{"rows must start at multiples of 16 bytes"};
    need.scratch = kWorkspace;
  }
  Linear(const fk_host&, const op::init& init, const op::weights& weights) : init_(init), weights_(weights) {}
  void prepare(const op::forward& max, const fk_memory&) {
    product_ = std::make_unique<Product>();
    if (const fk_in* bias = weights_.bias.or_null) {
      product_->set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      product_->set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias->data);
      product_->set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(bias));
    }
    // For the largest and the smallest step.
    const int64_t most = max.x->shape[0];
    if (most >= kTunedRows && init_.in_features * init_.out_features >= kTunedWeight)
      product_->tune(problem(most, max), weights_.weight->data);
    product_->find(problem(most, max));
    product_->find(problem(1, max));
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    if (a.x->shape[0]) product_->run(problem(a.x->shape[0], a), weights_.weight->data, a.x->data, a.out->data, ctx);
  }

 private:
  Problem problem(int64_t m, const op::forward& a) const {
    const int64_t k = init_.in_features, n = init_.out_features;
    return {{type_of(weights_.weight), k, n, k}, {type_of(a.x), k, m, a.x->strides[0]}, {type_of(fk_as_in(a.out)), n, m, n}};
  }
  const op::init& init_;
  const op::weights& weights_;
  std::unique_ptr<Product> product_;
};
FK_OP(linear, Linear);

}  // namespace
