// SPDX-License-Identifier: Apache-2.0
// The host side of swap_ab_kernel.cuh: a weight and its launches.
#pragma once
#include "../parts/op.cuh"
#include "../parts/tensor_map.cuh"
#include "swap_ab_kernel.cuh"

namespace fkc {

// A dense weight, with rows of k elements.
class SwapAbWeight {
 public:
  // From prepare() of an op.
  void prepare(const fk_in* weight, int64_t rows, int64_t k) {
    map_ = tensor_map_k64(weight->data, FK_DTYPE(weight) == FK_BF16, rows, k, k, swap_ab::kRows,
                          swap_ab::kDeep);
    processors_ = sm_count();
  }
  // The reason for a refusal, or null.
  static const char* refusal(int64_t rows, int64_t n, int64_t k) {
    if (rows > swap_ab::kRowsMax) return "up to 64 rows of x only";
    if (k % 64) return "in_features: a multiple of 64 only";
    // With more rows, cuBLAS is faster unless the matrix is large. A slim matrix takes little time
    // itself, but this kernel's weights arrive while the one before it ends.
    const bool slim =
        rows > 16 && rows <= 32 && n <= swap_ab::kSlim && k >= 4 * n && k <= swap_ab::kSlimMost;
    if (!slim && n < (rows > 32 ? swap_ab::kWide : swap_ab::kNarrow))
      return "out_features: too few for so many rows of x";
    return nullptr;
  }
  template <class T, class O>
  void multiply(const T* x, int64_t x_step, const swap_ab::Arguments<O>& a,
                const fk_ctx& ctx) const {
    if (a.rows <= 16)
      split<16>(x, x_step, a, ctx);
    else if (a.rows <= 32)
      split<32>(x, x_step, a, ctx);
    else
      split<64>(x, x_step, a, ctx);
  }

 private:
  template <int kN, int kSplit, class T, class O>
  static int at_once() {
    return max_active_clusters(swap_ab::swap_ab_split_k_gemm<T, O, kN, kSplit>, kSplit,
                               swap_ab::kThreads, swap_ab::shared_bytes(kN));
  }
  // The fewest parts of K which keep nearly as many multiprocessors busy as more parts would. There
  // are no more parts than chunks of K.
  template <int kN, class T, class O>
  void split(const T* x, int64_t x_step, const swap_ab::Arguments<O>& a, const fk_ctx& ctx) const {
    constexpr double kMore = 1.05;
    const int64_t tiles = cdiv(a.n, swap_ab::kRows), chunks = cdiv(a.k, swap_ab::kDeep);
    // The share of multiprocessors which are busy if all clusters have equally many tiles.
    const auto busy = [&](int parts, int clusters) {
      return chunks < parts ? 0
                            : double(tiles * parts) / double(cdiv(tiles, clusters) * processors_);
    };
    const double one = busy(1, at_once<kN, 1, T, O>()), two = busy(2, at_once<kN, 2, T, O>()),
                 four = busy(4, at_once<kN, 4, T, O>());
    if (one * kMore >= two && one * kMore >= four)
      go<kN, 1>(x, x_step, a, ctx);
    else if (two * kMore >= four)
      go<kN, 2>(x, x_step, a, ctx);
    else
      go<kN, 4>(x, x_step, a, ctx);
  }
  template <int kN, int kSplit, class T, class O>
  void go(const T* x, int64_t x_step, const swap_ab::Arguments<O>& a, const fk_ctx& ctx) const {
    using namespace swap_ab;
    const auto kernel = swap_ab_split_k_gemm<T, O, kN, kSplit>;
    // The number of clusters for which all have equally many tiles. The last tiles are then read as
    // fast as the others.
    const int64_t tiles = cdiv(a.n, kRows), rounds = cdiv(tiles, at_once<kN, kSplit, T, O>());
    launch_clusters(
        kernel, dim3(kSplit), unsigned(cdiv(tiles, rounds) * kSplit), kThreads,
        size_t(shared_bytes(kN)), ctx,
        tensor_map_k64(x, std::is_same_v<T, __nv_bfloat16>, a.rows, x_step, a.k, kN, kDeep), map_,
        a);
  }

  CUtensorMap map_{};
  int processors_ = 0;
};

}  // namespace fkc
