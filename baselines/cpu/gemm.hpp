// SPDX-License-Identifier: Apache-2.0
// Large matrix products, out [M,N] = x [M,K] * weight [N,K]^T, by a library. The build takes
// gemm_onednn.cpp or gemm_openblas.cpp, whichever library it found; both implement this header.
// Products with few rows have kernels of their own (small_m.hpp).
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>

namespace fk::cpu {

// Cuts the output [m, n] of a product into blocks, the work items of threads.
struct Grid {
  int64_t m, n, rows, columns;  // the output's size and a block's; the last blocks may be smaller

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

// Products of bf16 with float32 sums, rounded once at the end. Not every library and processor has
// them. The library generates code for each new M and keeps it; its work buffers are in its own
// heap.
class Bf16Gemm {
 public:
  // True if the library has such products for this processor. [any thread]
  static bool available();

  // `out_type` and `bias_type` are Types of op.hpp; bias_type -1: no bias. [control]
  Bf16Gemm(int64_t n, int64_t k, int out_type, int bias_type, int threads);
  ~Bf16Gemm();
  // Generates the code for a grid and for rows of x at this stride, unless it exists. [forward]
  void prepare(const Grid& grid, int64_t x_stride);
  // Computes one block on the calling thread, after prepare() for its grid. `thread` is below
  // `threads`, and no other call with the same number runs at the same time. out is dense.
  // [forward]
  void run(const Grid& grid, int64_t block, int thread, const void* x, int64_t x_stride,
           const void* w, const void* bias, void* out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fk::cpu
