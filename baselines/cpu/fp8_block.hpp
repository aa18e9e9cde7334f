// SPDX-License-Identifier: Apache-2.0
// Products with f8e4m3 weights that have a scale per block: a few rows of the weight at a time
// become float32 in the caches and meet all rows of x there (small_m.hpp), so that the weight is
// read from memory as it is.
#pragma once
#include "small_m.hpp"

namespace fk::cpu {

// A matrix [N, K] in blocks; `across` is how many blocks a row has.
struct Fp8Matrix {
  const uint8_t* weight;
  const float* scales;
  int64_t k, block_n, block_k, across;
};

// A row of x, as it is or rounded to f8e4m3 in groups.
struct Fp8Row {
  const void* x;
  int64_t k, block_k;
  int type, quantize;
};

}  // namespace fk::cpu

// Rows [begin, end) of the matrix, [row, stride].
FK_CPU_KERNEL(fp8_rows, const Fp8Matrix&, int64_t begin, int64_t end, float* to, int64_t stride)
FK_CPU_KERNEL(fp8_input, const Fp8Row&, float* to)

#ifdef FK_CPU_OPS
#include "op.hpp"

namespace fk::cpu {

// out[i] = x[i] @ W^T for rows of x and of out wherever they lie.
class Fp8Product {
 public:
  static constexpr int64_t kRowsBlock = 64;  // rows of x that a tile of the weight is made for
  static constexpr int64_t kTile = 8;        // rows of the weight

  static int64_t scratch_bytes(int64_t rows, int64_t k) {
    return threads_max() * floats(rows, k) * 4;
  }
  // Rows may be at most `rows` in one call of multiply().
  Fp8Product(int64_t rows, int64_t k, void* scratch)
      : floats_(floats(rows, k)), stride_(stride(k)), scratch_(static_cast<float*>(scratch)) {}

  struct Rows {
    int64_t count;
    const void* x[kRowsBlock];
    char* out[kRowsBlock];
    int x_type, out_type, quantize;
    const fk_in* bias_or_null;
  };
  // Columns [begin, end) of out; `begin` is a multiple of kTile. [any thread, each with its own
  // number]
  void multiply(const Fp8Matrix& w, const Rows& rows, int64_t begin, int64_t end,
                int thread) const {
    float* tile = scratch_ + thread * floats_;
    float* x = tile + kTile * stride_;
    for (int64_t i = 0; i < rows.count; ++i)
      input_({rows.x[i], w.k, w.block_k, rows.x_type, rows.quantize}, x + i * stride_);
    SmallM a{};
    a.weight = tile;
    a.k = w.k;
    a.out_type = rows.out_type;
    for (int64_t n = begin; n < end; n += kTile) {
      const int64_t count = std::min(kTile, end - n);
      rows_(w, n, n + count, tile, w.k);
      if (rows.bias_or_null) {
        a.bias_type = type_of(rows.bias_or_null);
        a.bias = data<char>(rows.bias_or_null) + n * bytes_of(a.bias_type);
      }
      for (int64_t i = 0; i < rows.count; i += kSmallM) {
        a.m = static_cast<int>(std::min<int64_t>(kSmallM, rows.count - i));
        for (int j = 0; j < a.m; ++j) {
          a.x[j] = x + (i + j) * stride_;
          a.out[j] = rows.out[i + j] + n * bytes_of(rows.out_type);
        }
        small_m_(a, 0, count);
      }
    }
  }

 private:
  static int64_t stride(int64_t k) { return padded(k) + 48; }  // as in product.cpp
  static int64_t floats(int64_t rows, int64_t k) {
    return (kTile + std::min(rows, kRowsBlock)) * stride(k);
  }

  const int64_t floats_, stride_;
  float* const scratch_;
  decltype(&generic::small_m) small_m_ = FK_CPU_PICK(small_m);
  decltype(&generic::fp8_rows) rows_ = FK_CPU_PICK(fp8_rows);
  decltype(&generic::fp8_input) input_ = FK_CPU_PICK(fp8_input);
};

}  // namespace fk::cpu
#endif
