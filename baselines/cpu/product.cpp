// SPDX-License-Identifier: Apache-2.0
// Which way a product goes, and the panels in float32 for types that no library multiplies.
#ifdef FK_CPU_OPS
#include "product.hpp"

namespace fk::cpu {

namespace {

// Products below this are done before a library call has started.
constexpr int64_t kSmallWork = 1 << 20;  // M * N * K

constexpr int64_t kPanelM = 512;  // rows of x at a time

// Rows of x lie 2^k bytes apart more often than not; this keeps them out of each other's cache
// sets.
int64_t small_stride(int64_t k) { return padded(k) + 48; }

int64_t panel_n(int64_t k) {
  return std::clamp<int64_t>((int64_t{1} << 18) / k / 16 * 16, 16, 256);
}
int64_t panel_floats(int64_t m, int64_t k) {
  return padded(panel_n(k) * (k + std::min(m, kPanelM)));
}

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

int64_t Product::scratch_bytes(int64_t m_max, int64_t n, int64_t k, ProductTypes types) {
  int64_t floats = types.x == kF32 ? 0 : kSmallM * small_stride(k);
  const bool panels = !is_bf16(types) && !is_f32(types);
  if (panels && m_max > kSmallM && n > 0) {
    floats = std::max(
        floats, padded(std::min(m_max, kPanelM) * k) + threads_max() * panel_floats(m_max, k));
  }
  return floats * 4;
}

bool Product::is_small(int64_t m) const { return m <= kSmallM || m * n_ * k_ <= kSmallWork; }

void Product::prepare(int64_t m, int64_t x_stride) {
  if (bf16_ && !is_small(m)) bf16_->prepare(m, x_stride);
}

void Product::run(int64_t m, const void* x, int64_t x_stride, const void* weight, const void* bias,
                  void* out, void* scratch) {
  if (m == 0 || n_ == 0) return;
  auto* floats = static_cast<float*>(scratch);
  if (is_small(m)) {
    const int64_t x_bytes = x_stride * bytes_of(types_.x), out_bytes = n_ * bytes_of(types_.out);
    for (int64_t first = 0; first < m; first += kSmallM) {
      run_small(std::min<int64_t>(kSmallM, m - first),
                static_cast<const char*>(x) + first * x_bytes, x_stride, weight, bias,
                static_cast<char*>(out) + first * out_bytes, floats);
    }
  } else if (bf16_) {
    bf16_->run(m, x, x_stride, weight, bias, out);
  } else if (is_f32(types_)) {
    auto* sums = static_cast<float*>(out);
    const LibraryThreads count(threads_);
    sgemm_nt(m, n_, k_, static_cast<const float*>(x), x_stride, static_cast<const float*>(weight),
             k_, sums, n_);
    if (bias == nullptr) return;
    split(threads_, m, m * n_ * 8, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        convert_({sums + i * n_, sums + i * n_, bias, kF32, kF32, types_.bias}, n_);
      }
    });
  } else {
    run_panels(m, static_cast<const char*>(x), x_stride, static_cast<const char*>(weight),
               static_cast<const char*>(bias), static_cast<char*>(out), floats);
  }
}

void Product::run_small(int64_t m, const char* x, int64_t x_stride, const void* weight,
                        const void* bias, char* out, float* scratch) const {
  SmallM a{};
  a.weight = weight;
  a.bias = bias;
  a.k = k_;
  a.m = static_cast<int>(m);
  a.weight_type = types_.weight;
  a.bias_type = types_.bias;
  a.out_type = types_.out;
  for (int64_t i = 0; i < m; ++i) {
    const char* row = x + i * x_stride * bytes_of(types_.x);
    a.out[i] = out + i * n_ * bytes_of(types_.out);
    if (types_.x == kF32) {
      a.x[i] = reinterpret_cast<const float*>(row);
    } else {
      float* copy = scratch + i * small_stride(k_);
      convert_({row, copy, nullptr, types_.x, kF32, 0}, k_);
      a.x[i] = copy;
    }
  }
  split(threads_, n_, n_ * k_ * bytes_of(types_.weight),
        [&](int64_t begin, int64_t end, int) { small_m_(a, begin, end); });
}

void Product::run_panels(int64_t m, const char* x, int64_t x_stride, const char* weight,
                         const char* bias, char* out, float* scratch) const {
  const int64_t width = panel_n(k_), panels = (n_ + width - 1) / width;
  const int64_t x_bytes = bytes_of(types_.x), w_bytes = bytes_of(types_.weight);
  const int64_t out_bytes = bytes_of(types_.out), bias_bytes = bias ? bytes_of(types_.bias) : 0;
  const LibraryThreads count_one(1);
  float* own = scratch + padded(std::min(m, kPanelM) * k_);
  for (int64_t first = 0; first < m; first += kPanelM) {
    const int64_t count = std::min(kPanelM, m - first);
    const float* rows = scratch;
    int64_t rows_stride = k_;
    if (types_.x == kF32) {
      rows = reinterpret_cast<const float*>(x) + first * x_stride;
      rows_stride = x_stride;
    } else {
      split(threads_, count, count * k_ * 6, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
          convert_(
              {x + (first + i) * x_stride * x_bytes, scratch + i * k_, nullptr, types_.x, kF32, 0},
              k_);
        }
      });
    }
    share(threads_, panels, n_ * k_ * w_bytes, [&](int64_t panel, int thread) {
      float* w = own + thread * panel_floats(m, k_);
      float* sums = w + width * k_;
      const int64_t begin = panel * width, columns = std::min(width, n_ - begin);
      convert_({weight + begin * k_ * w_bytes, w, nullptr, types_.weight, kF32, 0}, columns * k_);
      sgemm_nt(count, columns, k_, rows, rows_stride, w, k_, sums, columns);
      for (int64_t i = 0; i < count; ++i) {
        convert_({sums + i * columns, out + ((first + i) * n_ + begin) * out_bytes,
                  bias ? bias + begin * bias_bytes : nullptr, kF32, types_.out, types_.bias},
                 columns);
      }
    });
  }
}

}  // namespace fk::cpu
#endif
