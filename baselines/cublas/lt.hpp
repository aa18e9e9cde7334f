// SPDX-License-Identifier: Apache-2.0
// A product by cuBLASLt. Row-major x [M,K] and weight [N,K] are the column-major matrices x^T and
// weight^T, so out^T [N,M] = weight * x^T. A batch has one weight, one matrix of x and one of out
// each. The algorithm depends on M and the strides of x alone, and is looked up once. It is the
// first proposal of cuBLASLt, or with tune() the fastest of its proposals.
#pragma once
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "fk/cpp/plugin.hpp"

namespace fkb {

inline constexpr int32_t kSm[] = {90};
inline constexpr int64_t kWorkspace = int64_t{32} << 20;

inline void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) throw std::runtime_error(std::string(what) + ": " + cublasLtGetStatusString(status));
}
inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

inline cudaDataType_t type_of(const fk_in* view) {
  switch (FK_DTYPE(view)) {
    case FK_F32: return CUDA_R_32F;
    case FK_BF16: return CUDA_R_16BF;
    default: return CUDA_R_16F;
  }
}

// One per process and device; lives until the process ends.
inline cublasLtHandle_t handle() {
  static cublasLtHandle_t made = [] {
    cublasLtHandle_t h = nullptr;
    check(cublasLtCreate(&h), "cublasLtCreate");
    return h;
  }();
  return made;
}

// A column-major matrix; `step` elements from column to column.
struct Matrix {
  cudaDataType_t type;
  int64_t rows, columns, step;
  int64_t batch_step = 0;
};
class Layout {
 public:
  Layout(const Matrix& m, int32_t batch) {
    check(cublasLtMatrixLayoutCreate(&value_, m.type, uint64_t(m.rows), uint64_t(m.columns), m.step), "layout");
    if (batch == 1) return;
    check(cublasLtMatrixLayoutSetAttribute(value_, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch), "batch");
    check(cublasLtMatrixLayoutSetAttribute(value_, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &m.batch_step, sizeof m.batch_step), "batch");
  }
  Layout(const Layout&) = delete;
  ~Layout() { cublasLtMatrixLayoutDestroy(value_); }
  cublasLtMatrixLayout_t get() const { return value_; }

 private:
  cublasLtMatrixLayout_t value_ = nullptr;
};

// The three matrices of a call, as above. cuBLASLt gets weight^T and transposes it.
struct Problem {
  Matrix weight, x, out;
  int32_t batch = 1;
};

// Made in prepare(), used by one instance.
class Product {
 public:
  Product() {
    check(cublasLtMatmulDescCreate(&description_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
    set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  }
  Product(const Product&) = delete;
  ~Product() { cublasLtMatmulDescDestroy(description_); }

  template <class T>
  void set(cublasLtMatmulDescAttributes_t name, const T& value) {
    check(cublasLtMatmulDescSetAttribute(description_, name, &value, sizeof value), "cublasLtMatmulDescSetAttribute");
  }
  // Finds an algorithm, which loads its kernel. That must not happen inside a capture.
  void find(const Problem& p) { step(p); }
  // The same, but measures on the device which proposal is fastest with `weight`. A problem is
  // measured once in a process, so that all layers of a model run the same algorithm. Steps of
  // slightly fewer rows use it too.
  void tune(const Problem& p, const void* weight);
  void run(const Problem& p, const void* weight, const void* x, void* out, const fk_ctx& ctx) {
    const Step& s = step(p);
    const float one = 1, zero = 0;
    check(cublasLtMatmul(handle(), description_, &one, weight, s.weight.get(), x, s.x.get(), &zero, out, s.out.get(), out, s.out.get(),
                         &s.chosen.algo, ctx.scratch, size_t(kWorkspace), static_cast<cudaStream_t>(ctx.stream)),
          "cublasLtMatmul");
  }

 private:
  static constexpr int kProposals = 8;
  struct Step {
    Layout weight, x, out;
    cublasLtMatmulHeuristicResult_t chosen{};
    std::vector<cublasLtMatmulHeuristicResult_t> proposed;
    int64_t rows;
    explicit Step(const Problem& p) : weight(p.weight, p.batch), x(p.x, p.batch), out(p.out, p.batch), rows(p.x.columns) {}
  };
  const Step& step(const Problem& p) {
    auto& made = steps_[{p.x.columns, p.x.step, p.x.batch_step}];
    if (!made) {
      auto fresh = std::make_unique<Step>(p);
      choose(*fresh);
      made = std::move(fresh);
    }
    return *made;
  }
  void choose(Step& s) {
    cublasLtMatmulPreference_t wish = nullptr;
    check(cublasLtMatmulPreferenceCreate(&wish), "cublasLtMatmulPreferenceCreate");
    const size_t workspace = kWorkspace;
    int count = 0;
    s.proposed.resize(kProposals);
    auto status = cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
    const uint32_t sums = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;  // parts of K are added in float32
    if (status == CUBLAS_STATUS_SUCCESS)
      status = cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &sums, sizeof sums);
    // Views begin at multiples of FK_ALIGNMENT bytes if rows do. cuBLASLt assumes 256 bytes by
    // default.
    const uint32_t alignment = FK_ALIGNMENT;
    for (const auto name : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                            CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      if (status == CUBLAS_STATUS_SUCCESS) status = cublasLtMatmulPreferenceSetAttribute(wish, name, &alignment, sizeof alignment);
    if (status == CUBLAS_STATUS_SUCCESS)
      status = cublasLtMatmulAlgoGetHeuristic(handle(), description_, s.weight.get(), s.x.get(), s.out.get(), s.out.get(), wish, kProposals,
                                              s.proposed.data(), &count);
    cublasLtMatmulPreferenceDestroy(wish);
    check(status, "cublasLtMatmulAlgoGetHeuristic");
    if (!count) throw std::runtime_error("cuBLASLt has no algorithm for this case");
    s.proposed.resize(size_t(count));
    s.chosen = s.proposed[0];
    take_tuned(s);
  }
  // The tuned algorithm of the next larger step, if it can run this step and the step has more than
  // three quarters of its rows.
  void take_tuned(Step& s) const {
    const auto next = tuned_.lower_bound(s.rows);
    if (next == tuned_.end() || s.rows * 4 <= next->first * 3) return;
    cublasLtMatmulHeuristicResult_t result{};
    const auto status = cublasLtMatmulAlgoCheck(handle(), description_, s.weight.get(), s.x.get(), s.out.get(), s.out.get(), &next->second, &result);
    if (status != CUBLAS_STATUS_SUCCESS || result.workspaceSize > size_t(kWorkspace)) return;
    s.chosen = result;
    s.chosen.algo = next->second;
  }
  // Seconds of a call of each proposal in a graph, the median of a few, with cold caches. Empty if
  // there is no memory for it.
  std::vector<double> measure(const Step& s, const Problem& p, const void* weight) const;

  cublasLtMatmulDesc_t description_ = nullptr;
  std::map<std::array<int64_t, 3>, std::unique_ptr<Step>> steps_;
  std::map<int64_t, cublasLtMatmulAlgo_t> tuned_;  // by rows of x
};

// The number of elements in 16 bytes.
inline int64_t elements_of_16_bytes(const fk_in* view) { return FK_DTYPE(view) == FK_F32 ? 4 : 8; }

}  // namespace fkb
