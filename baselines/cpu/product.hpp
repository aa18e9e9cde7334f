// SPDX-License-Identifier: Apache-2.0
// out [M,N] = x [M,K] * weight [N,K]^T (+ bias) for any M and element types. Many rows of bf16 or
// float32 go to the library (gemm.hpp), few rows and every other mix of types to the kernels of
// small_m.hpp.
#pragma once
#include <memory>

#include "gemm.hpp"
#include "op.hpp"
#include "small_m.hpp"

namespace fk::cpu {

struct ProductTypes {
  int x, weight, out, bias;  // Types of op.hpp; bias -1: none
};

class Product {
 public:
  Product(int64_t n, int64_t k, ProductTypes types, int threads);

  // Scratch of run() for any m up to m_max and any number of threads. [any thread]
  static int64_t scratch_bytes(int64_t m_max, int64_t k, ProductTypes types);
  // Prepares for this m, so that its first run() is as fast as later ones. [control]
  void prepare(int64_t m, int64_t x_stride);
  // x_stride in elements; out is dense; bias is null when types.bias is -1. [forward]
  void run(int64_t m, const void* x, int64_t x_stride, const void* weight, const void* bias,
           void* out, void* scratch);

 private:
  void run_rows(int64_t m, const char* x, int64_t x_stride, const char* weight, const void* bias,
                char* out, float* scratch) const;
  bool is_small(int64_t m) const;
  Grid grid(int64_t m) const;
  // body(block, thread) for all blocks of a grid.
  template <class Body>
  void each_block(const Grid& grid, const Body& body);

  const int64_t n_, k_;
  const ProductTypes types_;
  const int threads_;
  std::unique_ptr<Bf16Gemm> bf16_;
  double products_per_ns_;  // of one thread: the highest rate measured so far
  decltype(&generic::small_m) small_m_ = FK_CPU_PICK(small_m);
  decltype(&generic::convert) convert_ = FK_CPU_PICK(convert);
};

}  // namespace fk::cpu
