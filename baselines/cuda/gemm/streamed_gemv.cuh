// SPDX-License-Identifier: Apache-2.0
// The host side of streamed_gemv_kernel.cuh: a weight and its launches.
#pragma once
#include "../parts/op.cuh"
#include "../parts/tensor_map.cuh"
#include "streamed_gemv_kernel.cuh"

namespace fkc {

// A dense weight, with rows of k elements.
class StreamedWeight {
 public:
  // From prepare() of an op. `rows`: the rows of all experts.
  void prepare(const fk_in* weight, int64_t rows, int64_t k, gemv::Mode mode) {
    // A box is 16 rows (8 of gate or up) of kBox columns.
    map_ = tensor_map_k64(weight->data, FK_DTYPE(weight) == FK_BF16, rows, k, k,
                          gemv::kRows / (mode == gemv::Mode::gated ? 2 : 1), gemv::kBox);
  }
  // The reason for a refusal, or null.
  static const char* refusal(int64_t tokens, int64_t x_rows, int64_t k) {
    if (tokens > gemv::kTokensMax || x_rows > gemv::kAssignmentsMax)
      return "up to 16 rows of x only";
    if (k % 64) return "in_features: a multiple of 64 only";
    if (k >= 1 << 20 || gemv::plan_of(int(tokens), int(x_rows), int(k)).stages < 2)
      return "in_features: fewer for so many rows";
    return nullptr;
  }
  template <gemv::Mode kMode, bool kExperts, class T, class O>
  void multiply(const gemv::Arguments<T, O>& a, const fk_ctx& ctx) const {
    if (a.tokens <= 8)
      go<kMode, kExperts, 1>(a, ctx);
    else
      go<kMode, kExperts, 2>(a, ctx);
  }

 private:
  template <gemv::Mode kMode, bool kExperts, int kTiles, class T, class O>
  void go(const gemv::Arguments<T, O>& a, const fk_ctx& ctx) const {
    using namespace gemv;
    const auto kernel = streamed_gemv<T, O, kMode, kExperts, kTiles>;
    const int threads = 32 * (kWarps + 1 + 2 * kTiles),
              out = kMode == Mode::gated ? kRows / 2 : kRows;
    const Plan plan =
        plan_of(a.tokens, a.x_rows, a.k, kExperts ? int64_t{kTilesOfMany} : cdiv(a.n, out));
    const int64_t items =
        cdiv(a.n, out) * (kExperts && kMode == Mode::gated ? a.tokens * a.top_k : 1);
    const unsigned grid = unsigned(
        std::min<int64_t>(max_active_clusters(kernel, plan.split, threads, kSharedMax), items) *
        plan.split);
    launch_clusters(kernel, dim3(unsigned(plan.split)), grid, unsigned(threads), size_t(plan.bytes),
                    ctx, map_, a, plan);
  }

  CUtensorMap map_{};
};

}  // namespace fkc
