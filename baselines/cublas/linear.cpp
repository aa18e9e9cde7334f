// SPDX-License-Identifier: Apache-2.0
// linear by cuBLASLt. Row-major x [M,K] and weight [N,K] are the column-major matrices x^T and weight^T, so
// out^T [N,M] = weight * x^T. Which algorithm runs depends on M alone and is looked up once per M.
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>

#include "fk/cpp/plugin.hpp"
#include "fk/ops/linear.h"

namespace {

constexpr int32_t kSm[] = {90};
constexpr int64_t kWorkspace = int64_t{32} << 20;

void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw std::runtime_error(std::string(what) + ": " + cublasLtGetStatusString(status));
}

cudaDataType_t type_of(const fk_in* view) {
  switch (FK_DTYPE(view)) {
    case FK_F32: return CUDA_R_32F;
    case FK_BF16: return CUDA_R_16BF;
    default: return CUDA_R_16F;
  }
}

// One per process and device; lives until the process ends.
cublasLtHandle_t handle() {
  static cublasLtHandle_t made = [] {
    cublasLtHandle_t h = nullptr;
    check(cublasLtCreate(&h), "cublasLtCreate");
    return h;
  }();
  return made;
}

struct Layout {
  cublasLtMatrixLayout_t value = nullptr;
  Layout(cudaDataType_t type, int64_t rows, int64_t columns, int64_t step) {
    check(cublasLtMatrixLayoutCreate(&value, type, uint64_t(rows), uint64_t(columns), step), "layout");
  }
  Layout(const Layout&) = delete;
  ~Layout() { cublasLtMatrixLayoutDestroy(value); }
};

class Linear {
 public:
  using op = fk::linear;
  // Another M may be computed by another algorithm.
  static constexpr fk_claims claims{FK_END(fk_claims, sm), FK_CUDA, FK_GRAPH_ALWAYS, 1, 0, FK_ACCUMULATE_F32, 0, 1, kSm};
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max, fk_need& need) {
    const int x = FK_DTYPE(max.x), out = FK_DTYPE(max.out);
    if (x != FK_DTYPE(weights.weight)) throw fk::unsupported{"x: the dtype of the weight only"};
    if (out != x && out != FK_F32) throw fk::unsupported{"out: the dtype of x, or float32"};
    if (weights.bias.or_null && FK_DTYPE(weights.bias.or_null) != out) throw fk::unsupported{"bias: the dtype of out only"};
    const int64_t step = x == FK_F32 ? 4 : 8;
    if (init.in_features % step || init.out_features % step || max.x->strides[0] % step)
      throw fk::unsupported{"rows must start at multiples of 16 bytes"};
    need.scratch = kWorkspace;
  }
  Linear(const fk_host&, const op::init& init, const op::weights& weights) : init_(init), weights_(weights) {}
  ~Linear() {
    if (product_) cublasLtMatmulDescDestroy(product_);
  }
  void prepare(const op::forward& max, const fk_memory&) {
    check(cublasLtMatmulDescCreate(&product_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
    const cublasOperation_t transposed = CUBLAS_OP_T;
    set(CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed);
    if (const fk_in* bias = weights_.bias.or_null) {
      const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
      const cudaDataType_t type = type_of(bias);
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias->data, sizeof bias->data);
      set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type);
    }
    // Kernels of the largest and the smallest step are loaded here and not inside a capture.
    choose(max.x->shape[0], max.x, fk_as_in(max.out));
    choose(1, max.x, fk_as_in(max.out));
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t m = a.x->shape[0];
    if (!m) return;
    const Step& step = choose(m, a.x, fk_as_in(a.out));
    const float one = 1, zero = 0;
    check(cublasLtMatmul(handle(), product_, &one, weights_.weight->data, step.weight.value, a.x->data, step.x.value, &zero, a.out->data,
                         step.out.value, a.out->data, step.out.value, &step.chosen.algo, ctx.scratch, size_t(kWorkspace),
                         static_cast<cudaStream_t>(ctx.stream)),
          "cublasLtMatmul");
  }

 private:
  struct Step {
    Layout weight, x, out;
    cublasLtMatmulHeuristicResult_t chosen{};
  };
  void set(cublasLtMatmulDescAttributes_t name, const void* value, size_t bytes) {
    check(cublasLtMatmulDescSetAttribute(product_, name, value, bytes), "cublasLtMatmulDescSetAttribute");
  }
  const Step& choose(int64_t m, const fk_in* x, const fk_in* out) {
    auto& step = steps_[{m, x->strides[0]}];
    if (step) return *step;
    const int64_t k = init_.in_features, n = init_.out_features;
    step.reset(new Step{{type_of(weights_.weight), k, n, k}, {type_of(x), k, m, x->strides[0]}, {type_of(out), n, m, n}});
    cublasLtMatmulPreference_t wish = nullptr;
    check(cublasLtMatmulPreferenceCreate(&wish), "cublasLtMatmulPreferenceCreate");
    const size_t workspace = kWorkspace;
    int count = 0;
    auto status = cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
    if (status == CUBLAS_STATUS_SUCCESS)
      status = cublasLtMatmulAlgoGetHeuristic(handle(), product_, step->weight.value, step->x.value, step->out.value, step->out.value,
                                              wish, 1, &step->chosen, &count);
    cublasLtMatmulPreferenceDestroy(wish);
    check(status, "cublasLtMatmulAlgoGetHeuristic");
    if (!count) throw std::runtime_error("cuBLASLt has no algorithm for this case");
    return *step;
  }

  const op::init& init_;
  const op::weights& weights_;
  cublasLtMatmulDesc_t product_ = nullptr;
  std::map<std::pair<int64_t, int64_t>, std::unique_ptr<Step>> steps_;
};
FK_OP(linear, Linear);

}  // namespace
