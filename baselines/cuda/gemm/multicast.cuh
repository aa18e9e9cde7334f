// SPDX-License-Identifier: Apache-2.0
// The host side of multicast_kernel.cuh: a weight and its launches.
#pragma once
#include "../parts/op.cuh"
#include "../parts/tensor_map.cuh"
#include "multicast_kernel.cuh"

namespace fkc {

// A dense weight, with rows of k elements.
class MulticastWeight {
 public:
  // From prepare() of an op.
  void prepare(const fk_in* weight, int64_t n, int64_t k) {
    map_ = tensor_map_k64(weight->data, FK_DTYPE(weight) == FK_BF16, n, k, k, multicast::kN / 2, multicast::kDeep);
  }
  // The reason for a refusal, or null. As measured, cuBLAS is faster for fewer rows, which are
  // bound by reading weights, and for sizes which leave multiprocessors idle.
  static const char* refusal(int64_t rows, int64_t n, int64_t k) {
    if (rows > multicast::kRowsMax) return "up to 256 rows of x only";
    if (rows <= multicast::kRows) return "33 to 128 rows of x (64 of a wide matrix): fewer or more only";
    if (k % multicast::kDeep || k < 2 * multicast::kDeep) return "in_features: a multiple of 64 from 128 on only";
    if (n % 8) return "out_features: a multiple of 8 only";
    const int64_t tiles = cdiv(n, multicast::kN), pairs = sm_count() / 2;
    if (double(tiles) < 0.93 * double(cdiv(tiles, pairs) * pairs)) return "out_features: tiles of 224 do not fill the multiprocessors";
    return nullptr;
  }
  template <class T> void multiply(const T* x, int64_t x_step, const multicast::Arguments& a, const fk_ctx& ctx) const {
    using namespace multicast;
    const auto kernel = multicast_gemm<T>;
    // The number of clusters for which all have equally many tiles, so that they end together.
    const int64_t items = cdiv(a.n, kN), rounds = cdiv(items, max_active_clusters(kernel, 2, kThreads, kShared));
    launch_clusters(kernel, dim3(2), unsigned(cdiv(items, rounds) * 2), kThreads, size_t(kShared), ctx,
                    tensor_map_k64(x, std::is_same_v<T, __nv_bfloat16>, a.rows, x_step, a.k, kBox, kDeep), map_, a);
  }

 private:
  CUtensorMap map_{};
};

}  // namespace fkc
