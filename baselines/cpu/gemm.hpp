// SPDX-License-Identifier: Apache-2.0
// Large matrix products, out [M,N] = x [M,K] * weight [N,K]^T, by whichever library the build
// found: gemm_onednn.cpp or gemm_openblas.cpp implement this header. Small M has kernels of its own
// (small_m.hpp).
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>

namespace fk::cpu {

// The blocks of out [m, n] that a product is cut into.
struct Grid {
  int64_t m, n, rows, columns;  // of out, and of a block; the last blocks may be smaller

  struct Block {
    int64_t row, column, rows, columns;
  };
  int64_t across() const { return (n + columns - 1) / columns; }
  int64_t blocks() const { return across() * ((m + rows - 1) / rows); }
  Block block(int64_t i) const {
    const int64_t row = i / across() * rows, column = i % across() * columns;
    return {row, column, std::min(rows, m - row), std::min(columns, n - column)};
  }
};

// In float32, on the calling thread: out [m, n] = x * w^T with rows at the given strides, in
// elements. [forward]
void sgemm_nt(int64_t m, int64_t n, int64_t k, const float* x, int64_t x_stride, const float* w,
              int64_t w_stride, float* out, int64_t out_stride);

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
  // Makes ready for the blocks of a grid and rows of x at this stride, if it is not. [forward]
  void prepare(const Grid& grid, int64_t x_stride);
  // One block of a grid that is prepared, on the calling thread; `thread` is below `threads`, and
  // no other call has it at the same time. out is dense. [forward]
  void run(const Grid& grid, int64_t block, int thread, const void* x, int64_t x_stride,
           const void* w, const void* bias, void* out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fk::cpu
