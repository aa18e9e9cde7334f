// SPDX-License-Identifier: Apache-2.0
// Which way a product goes, and blocks of rows through the kernels for few rows.
#ifdef FK_CPU_OPS
#include "product.hpp"

namespace fk::cpu {

namespace {

// Products below this are done before a library call has started.
constexpr int64_t kSmallWork = 1 << 20;  // M * N * K

// Rows that are widened at a time, each part of the weight being read once for them.
constexpr int64_t kRowsBlock = 64;
// A part of the weight stays in the second-level cache while the rows pass over it.
constexpr int64_t kPartBytes = 256 << 10;

// Rows of x lie 2^k bytes apart more often than not; this keeps them out of each other's cache
// sets.
int64_t row_stride(int64_t k) { return padded(k) + 48; }

bool is_bf16(ProductTypes t) {
  return t.x == kBf16 && t.weight == kBf16 && t.out != kF16 && t.bias != kF16 &&
         Bf16Gemm::available();
}
bool is_f32(ProductTypes t) { return t.x == kF32 && t.weight == kF32 && t.out == kF32; }

}  // namespace

Product::Product(int64_t n, int64_t k, ProductTypes types, int threads)
    : n_(n), k_(k), types_(types), threads_(threads) {
  if (is_bf16(types)) bf16_ = std::make_unique<Bf16Gemm>(n, k, types.out, types.bias, threads);
}

int64_t Product::scratch_bytes(int64_t m_max, int64_t k, ProductTypes types) {
  return types.x == kF32 ? 0 : std::min(m_max, kRowsBlock) * row_stride(k) * 4;
}

bool Product::is_small(int64_t m) const { return m <= kSmallM || m * n_ * k_ <= kSmallWork; }

void Product::prepare(int64_t m, int64_t x_stride) {
  if (bf16_ && !is_small(m)) bf16_->prepare(m, x_stride);
}

void Product::run(int64_t m, const void* x, int64_t x_stride, const void* weight, const void* bias,
                  void* out, void* scratch) {
  if (m == 0) return;
  if (bf16_ && !is_small(m)) return bf16_->run(m, x, x_stride, weight, bias, out);
  if (!is_f32(types_) || is_small(m)) {
    const int64_t x_bytes = x_stride * bytes_of(types_.x), out_bytes = n_ * bytes_of(types_.out);
    for (int64_t first = 0; first < m; first += kRowsBlock) {
      run_rows(std::min(kRowsBlock, m - first), static_cast<const char*>(x) + first * x_bytes,
               x_stride, static_cast<const char*>(weight), bias,
               static_cast<char*>(out) + first * out_bytes, static_cast<float*>(scratch));
    }
    return;
  }
  auto* sums = static_cast<float*>(out);
  sgemm_nt(m, n_, k_, static_cast<const float*>(x), x_stride, static_cast<const float*>(weight), k_,
           sums, n_, threads_);
  if (bias == nullptr) return;
  split(threads_, m, m * n_ * 8, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      convert_({sums + i * n_, sums + i * n_, bias, kF32, kF32, types_.bias}, n_);
    }
  });
}

void Product::run_rows(int64_t m, const char* x, int64_t x_stride, const char* weight,
                       const void* bias, char* out, float* scratch) const {
  SmallM chunks[kRowsBlock / kSmallM] = {};
  for (int64_t i = 0; i < m; ++i) {
    SmallM& a = chunks[i / kSmallM];
    const char* row = x + i * x_stride * bytes_of(types_.x);
    float* copy = scratch + i * row_stride(k_);
    if (types_.x != kF32) convert_({row, copy, nullptr, types_.x, kF32, 0}, k_);
    a.x[i % kSmallM] = types_.x == kF32 ? reinterpret_cast<const float*>(row) : copy;
    a.out[i % kSmallM] = out + i * n_ * bytes_of(types_.out);
    a.weight = weight;
    a.bias = bias;
    a.k = k_;
    a.m = static_cast<int>(i % kSmallM) + 1;
    a.weight_type = types_.weight;
    a.bias_type = types_.bias;
    a.out_type = types_.out;
  }
  const int64_t used = (m + kSmallM - 1) / kSmallM, row_bytes = k_ * bytes_of(types_.weight);
  const int64_t part = used == 1 ? n_ : std::max<int64_t>(8, kPartBytes / row_bytes);
  split(threads_, n_, n_ * row_bytes * used, [&](int64_t begin, int64_t end, int) {
    for (int64_t first = begin; first < end; first += part) {
      for (int64_t c = 0; c < used; ++c) small_m_(chunks[c], first, std::min(end, first + part));
    }
  });
}

}  // namespace fk::cpu
#endif
