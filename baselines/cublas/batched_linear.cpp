// SPDX-License-Identifier: Apache-2.0
// batched_linear by cuBLASLt: a batch with strides, heads inside rows of x and out.
#include "fk/ops/batched_linear.h"
#include "lt.hpp"

namespace {
using namespace fkb;

class BatchedLinear {
 public:
  using op = fk::batched_linear;
  // For another M, another algorithm may run.
  static constexpr fk_claims claims{FK_END(fk_claims, sm), FK_CUDA, FK_GRAPH_ALWAYS, 1, 0, FK_ACCUMULATE_F32, 0, 1, kSm};
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max, fk_need& need) {
    if (FK_DTYPE(max.x) != FK_DTYPE(weights.weight)) throw fk::unsupported{"x: the dtype of the weight only"};
    const int64_t step = elements_of_16_bytes(max.x);
    if (init.in_features % step || init.out_features % step || max.x->strides[0] % step || max.x->strides[1] % step)
      throw fk::unsupported{"rows must start at multiples of 16 bytes"};
    // cuBLASLt has no matrix with rows whose heads overlap the next row.
    if (max.x->strides[0] < init.in_features) throw fk::unsupported{"x: rows of a head must not overlap"};
    need.scratch = kWorkspace;
  }
  BatchedLinear(const fk_host&, const op::init& init, const op::weights& weights) : init_(init), weights_(weights) {}
  void prepare(const op::forward& max, const fk_memory&) {
    product_ = std::make_unique<Product>();
    // For the largest and the smallest step.
    product_->find(problem(max.x->shape[0], max));
    product_->find(problem(1, max));
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    if (a.x->shape[0]) product_->run(problem(a.x->shape[0], a), weights_.weight->data, a.x->data, a.out->data, ctx);
  }

 private:
  Problem problem(int64_t m, const op::forward& a) const {
    const int64_t k = init_.in_features, n = init_.out_features, heads = init_.num_heads;
    const cudaDataType_t type = type_of(a.x);
    return {{type, k, n, k, n * k}, {type, k, m, a.x->strides[0], a.x->strides[1]}, {type, n, m, heads * n, n}, int32_t(heads)};
  }
  const op::init& init_;
  const op::weights& weights_;
  std::unique_ptr<Product> product_;
};
FK_OP(batched_linear, BatchedLinear);

}  // namespace
