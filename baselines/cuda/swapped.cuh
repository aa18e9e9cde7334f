// SPDX-License-Identifier: Apache-2.0
// The host side of swapped_kernel.cuh: a weight that is read once past some rows of x.
#pragma once
#include "swapped_kernel.cuh"
#include "tensor_map.cuh"

namespace fkc {

// A weight of these products: rows of k elements, dense.
class SwappedWeight {
 public:
  // From prepare() of an op.
  void prepare(const fk_in* weight, int64_t rows, int64_t k) {
    map_ = map_of_64s(weight->data, FK_DTYPE(weight) == FK_BF16, rows, k, k, swapped::kRows, swapped::kDeep);
    processors_ = multiprocessors();
  }
  // Why such a product is not taken; null if it is.
  static const char* refusal(int64_t rows, int64_t n, int64_t k) {
    if (rows > swapped::kRowsMax) return "up to 64 rows of x only";
    if (k % 64) return "in_features: a multiple of 64 only";
    // With more rows, reading x as well is slower than what cuBLAS does, but where the ends of a run weigh little.
    if (n < (rows > 32 ? swapped::kWide : swapped::kNarrow)) return "out_features: too few for so many rows of x";
    return nullptr;
  }
  template <class T, class O> void multiply(const T* x, int64_t x_step, const swapped::Arguments<O>& a, const fk_ctx& ctx) const {
    if (a.rows <= 16) go<16>(x, x_step, a, ctx);
    else if (a.rows <= 32) go<32>(x, x_step, a, ctx);
    else go<64>(x, x_step, a, ctx);
  }

 private:
  template <int kN, class T, class O> void go(const T* x, int64_t x_step, swapped::Arguments<O> a, const fk_ctx& ctx) const {
    using namespace swapped;
    const auto kernel = some_rows<T, O, kN>;
    thread_local bool known = false;
    if (!known) check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes(kN)), "shared memory");
    known = true;
    // As many blocks as have equally many tiles: with fewer than all processors the last tiles are read as fast as the others.
    const int64_t tiles = cdiv(a.n, kRows), blocks = cdiv(tiles, cdiv(tiles, processors_));
    launch(kernel, unsigned(blocks), kThreads, size_t(shared_bytes(kN)), ctx,
           map_of_64s(x, std::is_same_v<T, __nv_bfloat16>, a.rows, x_step, a.k, kN, kDeep), map_, a);
  }

  CUtensorMap map_{};
  int processors_ = 0;
};

}  // namespace fkc
