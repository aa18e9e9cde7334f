// SPDX-License-Identifier: Apache-2.0
// The host side of tiled_kernel.cuh: which tiles, and a weight whose tiles they are.
#pragma once
#include <array>

#include "clusters.cuh"
#include "tensor_map.cuh"
#include "tiled_kernel.cuh"

namespace fkc {

namespace tiled {

struct Tile {
  int n, split;
};
inline constexpr std::array<Tile, 5> kTiles = {{{224, 1}, {192, 2}, {128, 2}, {96, 2}, {64, 2}}};

// The tile that takes least time on so many multiprocessors, in elements of K of a row of weights: rounds of the multiprocessors
// times what a round takes. Narrow tiles read x from shared memory too often, as 16 rows of weights more would take; a round begins
// and ends with some 1000 elements of a tile of 128.
inline Tile best_tile(int64_t rows, int64_t n, int64_t k, int processors) {
  const auto time = [&](Tile t) {
    const int64_t clusters = processors / (2 * t.split), tiles = cdiv(n, t.n), items = rows > kRows ? tiles : cdiv(tiles, 2);
    return cdiv(items, std::max<int64_t>(clusters, 1)) * ((t.n + 16) * (k / t.split) + 128 * 1000);
  };
  return *std::min_element(kTiles.begin(), kTiles.end(), [&](Tile a, Tile b) { return time(a) < time(b); });
}

}  // namespace tiled

// A weight of these products: rows of k elements, dense.
class TiledWeight {
 public:
  // From prepare() of an op.
  void prepare(const fk_in* weight, int64_t n, int64_t k) {
    processors_ = multiprocessors();
    for (const int rows : {tiled::kRows, tiled::kRowsMax}) {
      const tiled::Tile tile = tiled::best_tile(rows, n, k, processors_);
      plans_[rows > tiled::kRows] = {tile, map_of_64s(weight->data, FK_DTYPE(weight) == FK_BF16, n, k, k, tile.n / 2, tiled::kDeep)};
    }
  }
  // Why such a product is not taken; null if it is.
  static const char* refusal(int64_t rows, int64_t n, int64_t k) {
    if (rows > tiled::kRowsMax) return "up to 256 rows of x only";
    if (k % tiled::kDeep || k < 2 * tiled::kDeep) return "in_features: a multiple of 64 from 128 on only";
    if (n % 8) return "out_features: a multiple of 8 only";
    return nullptr;
  }
  template <class T> void multiply(const T* x, int64_t x_step, const tiled::Arguments& a, const fk_ctx& ctx) const {
    const Plan& plan = plans_[a.rows > tiled::kRows];
    switch (plan.tile.n) {
      case 224: return go<224, 1>(x, x_step, a, plan, ctx);
      case 192: return go<192, 2>(x, x_step, a, plan, ctx);
      case 128: return go<128, 2>(x, x_step, a, plan, ctx);
      case 96: return go<96, 2>(x, x_step, a, plan, ctx);
      default: return go<64, 2>(x, x_step, a, plan, ctx);
    }
  }

 private:
  struct Plan {
    tiled::Tile tile{};
    CUtensorMap map{};
  };
  template <int kN, int kSplit, class T> void go(const T* x, int64_t x_step, const tiled::Arguments& a, const Plan& plan, const fk_ctx& ctx) const {
    using namespace tiled;
    const auto kernel = many_rows<T, kN, kSplit>;
    const int64_t tiles = cdiv(a.n, kN), items = a.rows > kRows ? tiles : cdiv(tiles, 2), most = clusters(kernel, 2 * kSplit, kThreads, shared_bytes(kN, kSplit));
    // As many clusters as have equally many tiles: they end together.
    const int64_t grid = cdiv(items, cdiv(items, most)) * 2 * kSplit;
    launch_clusters(kernel, dim3(2 * kSplit), unsigned(grid), kThreads, size_t(shared_bytes(kN, kSplit)), ctx,
                    map_of_64s(x, std::is_same_v<T, __nv_bfloat16>, a.rows, x_step, a.k, kBox, kDeep), plan.map, a);
  }

  std::array<Plan, 2> plans_;  // up to 128 rows of x, and more
  int processors_ = 0;
};

}  // namespace fkc
