// SPDX-License-Identifier: Apache-2.0
// gemm.hpp by OpenBLAS. Distributions build it without bf16 products, so this file has none.
#include <cblas.h>

#include <stdexcept>

#include "gemm.hpp"

namespace fk::cpu {

// On one thread: OpenBLAS has one number of threads for the whole process.
void sgemm_nt(int64_t m, int64_t n, int64_t k, const float* x, int64_t x_stride, const float* w,
              int64_t w_stride, float* out, int64_t out_stride) {
  [[maybe_unused]] static const bool alone = (openblas_set_num_threads(1), true);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<blasint>(m),
              static_cast<blasint>(n), static_cast<blasint>(k), 1.f, x,
              static_cast<blasint>(x_stride), w, static_cast<blasint>(w_stride), 0.f, out,
              static_cast<blasint>(out_stride));
}

struct Bf16Gemm::State {};

bool Bf16Gemm::available() { return false; }
Bf16Gemm::Bf16Gemm(int64_t, int64_t, int, int, int) {
  throw std::runtime_error("this build has no library with bf16 products");
}
Bf16Gemm::~Bf16Gemm() = default;
void Bf16Gemm::prepare(const Grid&, int64_t) {}
void Bf16Gemm::run(const Grid&, int64_t, int, const void*, int64_t, const void*, const void*,
                   void*) {}

}  // namespace fk::cpu
