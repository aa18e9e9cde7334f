// SPDX-License-Identifier: Apache-2.0
// Large matrix products, out [M,N] = x [M,K] * weight [N,K]^T, by whichever library the build
// found: gemm_onednn.cpp or gemm_openblas.cpp implement this header. Small M has kernels of its own
// (small_m.hpp).
#pragma once
#include <cstdint>
#include <memory>

namespace fk::cpu {

// In float32: out [m, n] = x * w^T with rows at the given strides, in elements. [forward]
void sgemm_nt(int64_t m, int64_t n, int64_t k, const float* x, int64_t x_stride, const float* w,
              int64_t w_stride, float* out, int64_t out_stride, int threads);

// bf16 products with float32 accumulation and one rounding, where the library and the processor
// have them. What the library generates for a new M is kept; its own work buffers are heap memory
// of the library.
class Bf16Gemm {
 public:
  // Whether the library has them for this processor. [any thread]
  static bool available();

  // `out_type` and `bias_type` are Types of op.hpp; bias_type -1: no bias. [control]
  Bf16Gemm(int64_t n, int64_t k, int out_type, int bias_type, int threads);
  ~Bf16Gemm();
  // Makes ready for M = m and rows of x at this stride. [control]
  void prepare(int64_t m, int64_t x_stride);
  // out is dense. An M that was not prepared is prepared now. [forward]
  void run(int64_t m, const void* x, int64_t x_stride, const void* w, const void* bias, void* out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fk::cpu
