// SPDX-License-Identifier: Apache-2.0
// Products with f8e4m3 weights that have a scale per block. Fp8Product converts a few rows of the
// weight at a time to float32, in scratch that stays in the cache. small_m.hpp multiplies them with
// all rows of x, so memory is read only for the f8e4m3 bytes.
#pragma once
#include "small_m.hpp"

namespace fk::cpu {

// A matrix [N, k] in blocks of [block_n, block_k]; a row has `across` blocks.
struct Fp8Matrix {
  const uint8_t* weight;
  const float* scales;
  int64_t k, block_n, block_k, across;
};

// A row of x [k]. `quantize` not 0: rounded to f8e4m3 with a scale for each block_k values.
struct Fp8Row {
  const void* x;
  int64_t k, block_k;
  int type, quantize;
};

}  // namespace fk::cpu

// Converts rows [begin, end) of the matrix to float32 `to` [end - begin, stride].
FK_CPU_KERNEL(fp8_rows, const Fp8Matrix&, int64_t begin, int64_t end, float* to, int64_t stride)
// Converts a row of x to float32 `to` [k], rounded as Fp8Row says.
FK_CPU_KERNEL(fp8_input, const Fp8Row&, float* to)

#ifdef FK_CPU_OPS
#include "op.hpp"

namespace fk::cpu {

// out[i] = x[i] @ W^T; each row of x and out has an address of its own.
class Fp8Product {
 public:
  static constexpr int64_t kRowsBlock = 64;  // most rows of x in one call of multiply()
  static constexpr int64_t kTile = 8;        // rows of the weight that are converted at a time

  static int64_t scratch_bytes(int64_t rows, int64_t k) {
    return threads_max() * floats(rows, k) * 4;
  }
  // `rows` is the most rows in one call of multiply(). `scratch` has scratch_bytes().
  Fp8Product(int64_t rows, int64_t k, void* scratch)
      : floats_(floats(rows, k)), stride_(stride(k)), scratch_(static_cast<float*>(scratch)) {}

  // Rows of one product: addresses of x and out, and their Types of op.hpp.
  struct Rows {
    int64_t count;
    const void* x[kRowsBlock];
    char* out[kRowsBlock];
    int x_type, out_type, quantize;
    const fk_in* bias_or_null;
  };
  // Computes columns [begin, end) of out; `begin` is a multiple of kTile. [any thread, each with
  // its own number]
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
  static int64_t stride(int64_t k) { return padded(k) + 48; }  // in floats; product.cpp says why 48
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
