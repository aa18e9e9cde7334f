// SPDX-License-Identifier: Apache-2.0
// The choice between the library and the kernels for few rows, and the blocks of a product. The
// kernels take a part of the weight at a time, for all blocks of rows.
#ifdef FK_CPU_OPS
#include "product.hpp"

#include <chrono>

namespace fk::cpu {

namespace {

// Smaller products end sooner than a library call starts.
constexpr int64_t kSmallWork = 1 << 20;  // of M * N * K

// Most rows that are converted to float32 at a time; each part of the weight is read once for them.
constexpr int64_t kRowsBlock = 64;
// Bytes of a part of the weight. It stays in the second-level cache while all rows use it.
constexpr int64_t kPartBytes = 256 << 10;

// Multiplications per ns of a thread in the library, assumed before any are measured.
constexpr double kProductsPerNs = 30;
// Least size of blocks. Packing smaller ones costs the library more than it gains.
constexpr int64_t kBlockRows = 16, kBlockColumns = 64;
constexpr int64_t kBlockWork = 1 << 20;  // of rows * columns * K

double now_ns() {
  return std::chrono::duration<double, std::nano>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Distance of rows in scratch, in floats. K is often a power of two; 48 more floats keep the rows
// out of each other's cache sets.
int64_t row_stride(int64_t k) { return padded(k) + 48; }

bool is_bf16(ProductTypes t) {
  return t.x == kBf16 && t.weight == kBf16 && t.out != kF16 && t.bias != kF16 &&
         Bf16Gemm::available();
}
bool is_f32(ProductTypes t) { return t.x == kF32 && t.weight == kF32 && t.out == kF32; }

}  // namespace

Product::Product(int64_t n, int64_t k, ProductTypes types, int threads)
    : n_(n), k_(k), types_(types), threads_(threads), products_per_ns_(kProductsPerNs) {
  if (is_bf16(types)) bf16_ = std::make_unique<Bf16Gemm>(n, k, types.out, types.bias, threads);
}

int64_t Product::scratch_bytes(int64_t m_max, int64_t k, ProductTypes types) {
  return types.x == kF32 ? 0 : std::min(m_max, kRowsBlock) * row_stride(k) * 4;
}

bool Product::is_small(int64_t m) const { return m <= kSmallM || m * n_ * k_ <= kSmallWork; }

void Product::prepare(int64_t m, int64_t x_stride) {
  if (bf16_ && !is_small(m)) bf16_->prepare(grid(m), x_stride);
}

// Halves blocks until each thread has enough. Depends on sizes and threads only: a result's bits
// must not depend on the team.
Grid Product::grid(int64_t m) const {
  Grid grid{m, n_, m, n_};
  const int64_t most = threads_ == 1 ? 1 : threads_ * kPartsPerThread;
  const auto half = [](int64_t whole, int64_t unit) {
    return ((whole + 1) / 2 + unit - 1) / unit * unit;
  };
  while (2 * grid.blocks() <= most && grid.rows * grid.columns * k_ >= 2 * kBlockWork) {
    if (grid.columns >= std::max(grid.rows, 2 * kBlockColumns))
      grid.columns = half(grid.columns, kBlockColumns);
    else if (grid.rows >= 2 * kBlockRows)
      grid.rows = half(grid.rows, kBlockRows);
    else
      break;
  }
  return grid;
}

// Runs all blocks and updates the measured rate.
template <class Body>
void Product::each_block(const Grid& grid, const Body& body) {
  const double work = static_cast<double>(grid.m) * static_cast<double>(n_ * k_);
  const double begin = now_ns();
  const int team = Team::size_for(threads_, grid.blocks(), work / products_per_ns_);
  Team::run(team, grid.blocks(), body);
  products_per_ns_ = std::max(products_per_ns_, work / (now_ns() - begin) / team);
}

void Product::run(int64_t m, const void* x, int64_t x_stride, const void* weight, const void* bias,
                  void* out, void* scratch) {
  if (m == 0) return;
  if (bf16_ && !is_small(m)) {
    const Grid blocks = grid(m);
    bf16_->prepare(blocks, x_stride);
    return each_block(blocks, [&](int64_t block, int thread) {
      bf16_->run(blocks, block, thread, x, x_stride, weight, bias, out);
    });
  }
  if (!is_f32(types_) || is_small(m)) {
    const int64_t x_bytes = x_stride * bytes_of(types_.x), out_bytes = n_ * bytes_of(types_.out);
    for (int64_t first = 0; first < m; first += kRowsBlock) {
      run_rows(std::min(kRowsBlock, m - first), static_cast<const char*>(x) + first * x_bytes,
               x_stride, static_cast<const char*>(weight), bias,
               static_cast<char*>(out) + first * out_bytes, static_cast<float*>(scratch));
    }
    return;
  }
  // float32: the library computes blocks, then the bias is added.
  auto* sums = static_cast<float*>(out);
  const Grid blocks = grid(m);
  each_block(blocks, [&](int64_t block, int) {
    const Grid::Block at = blocks.block(block);
    sgemm_nt(at.rows, at.columns, k_, static_cast<const float*>(x) + at.row * x_stride, x_stride,
             static_cast<const float*>(weight) + at.column * k_, k_, sums + at.row * n_ + at.column,
             n_);
  });
  if (bias == nullptr) return;
  split(threads_, m, m * n_ * 8, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      convert_({sums + i * n_, sums + i * n_, bias, kF32, kF32, types_.bias}, n_);
    }
  });
}

// At most kRowsBlock rows, in chunks of kSmallM. `scratch` has room for the rows in float32.
void Product::run_rows(int64_t m, const char* x, int64_t x_stride, const char* weight,
                       const void* bias, char* out, float* scratch) const {
  SmallM chunks[kRowsBlock / kSmallM] = {};
  for (int64_t i = 0; i < m; ++i) {
    SmallM& a = chunks[i / kSmallM];
    const char* row = x + i * x_stride * bytes_of(types_.x);
    float* copy = scratch + i * row_stride(k_);
    if (types_.x != kF32)
      convert_({row, copy, /*bias=*/nullptr, types_.x, kF32, /*bias_type=*/0}, k_);
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
  const int64_t part =
      used == 1 ? n_
                : std::max(kSmallColumns, kPartBytes / row_bytes / kSmallColumns * kSmallColumns);
  split_by(kSmallColumns, threads_, n_, n_ * row_bytes * used,
           [&](int64_t begin, int64_t end, int) {
             for (int64_t first = begin; first < end; first += part) {
               for (int64_t c = 0; c < used; ++c)
                 small_m_(chunks[c], first, std::min(end, first + part));
             }
           });
}

}  // namespace fk::cpu
#endif
