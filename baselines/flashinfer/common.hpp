// SPDX-License-Identifier: Apache-2.0
// The host side of the ops of this provider: refusals, the choice of a template instance, and the
// tiles of FA3's persistent blocks.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <optional>
#include <queue>
#include <stdexcept>
#include <utility>
#include <vector>

#include "fk/cpp/plugin.hpp"
#include "kernels.hpp"

namespace fkf {

inline constexpr int32_t kSm[] = {90};

inline void need(bool condition, const char* why) {
  if (!condition) throw fk::unsupported{why};
}
inline void need_16bit(const fk_in* view) {
  need(FK_DTYPE(view) == FK_BF16 || FK_DTYPE(view) == FK_F16, "float16 and bfloat16 only");
}
inline void need_aligned(const fk_in* view) {
  need(fk_alignment(view) == FK_ALIGNMENT, "rows must start at multiples of 16 bytes");
  need(view->strides[view->ndim - 1] == 1, "the last axis must be dense");
}
// FlashInfer counts elements of queries in 32 bits.
inline void need_offsets(const fk_in* view) {
  need(view->shape[0] * view->strides[0] < int64_t{1} << 31, "q: fewer than 2^31 elements");
}
inline int64_t cdiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// f(type, std::integral_constant<int, width>)
template <class F>
auto by_type(int32_t dtype, int64_t width, F f) {
  using W64 = std::integral_constant<int, 64>;
  using W128 = std::integral_constant<int, 128>;
  if (dtype == FK_BF16) return width == 64 ? f(__nv_bfloat16{}, W64{}) : f(__nv_bfloat16{}, W128{});
  return width == 64 ? f(__half{}, W64{}) : f(__half{}, W128{});
}

inline dense_attention dense_for(int32_t dtype, int64_t width, bool causal, int64_t window) {
  if (window) return dense<__nv_bfloat16, 128, true, true>;
  return by_type(dtype, width, [&](auto type, auto d) -> dense_attention {
    return causal ? dense<decltype(type), decltype(d)::value, true, false>
                  : dense<decltype(type), decltype(d)::value, false, false>;
  });
}

// The device's persistent blocks: one for each multiprocessor.
inline int block_count() {
  int device = 0, count = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
  return count;
}
constexpr int64_t kBlocksMax = 256;  // no chip with sm_90 has more

// Divides work: the most expensive item first, each to the taker with the least work.
class Loads {
 public:
  explicit Loads(int64_t count) {
    for (int64_t i = 0; i < count; ++i) loads_.push({0, i});
  }
  // The taker of work with this cost.
  size_t give(int64_t cost) {
    auto [load, who] = loads_.top();
    loads_.pop();
    loads_.push({load + cost, who});
    return size_t(who);
  }

 private:
  using Load = std::pair<int64_t, int64_t>;
  std::priority_queue<Load, std::vector<Load>, std::greater<>> loads_;
};

inline int64_t tiles_bytes(int64_t tokens, int64_t requests, int64_t heads, int64_t width) {
  return (kBlocksMax + 1) * 4 + 4 +
         (cdiv(tokens, dense_rows(width)) + requests) * heads * int64_t(sizeof(Tile));
}
inline Tiles tiles_at(const void* blob, int blocks) {
  const auto* bounds = static_cast<const int32_t*>(blob);
  return {blocks, bounds, reinterpret_cast<const Tile*>(bounds + kBlocksMax + 2)};
}
struct Heads {
  int64_t count, width;
  bool causal;
  int64_t window;
};
// Divides the tiles: the most expensive ones of a head first, each to the block with the least
// work. `keys(r)`: the number of keys of request r. Returns the bytes of the plan.
template <class Keys>
int64_t deal_tiles(const int32_t* starts, int64_t requests, Keys keys, const Heads& heads,
                   int blocks, void* blob) {
  const int64_t rows = dense_rows(heads.width);
  struct Cost {
    Tile tile;
    int64_t cost;
  };
  std::vector<Cost> of_head;
  for (int64_t r = 0; r < requests; ++r) {
    const int64_t queries = starts[r + 1] - starts[r];
    for (int64_t q = 0; q * rows < queries; ++q) {
      int64_t seen =
          heads.causal ? std::min<int64_t>(keys(r), keys(r) - queries + (q + 1) * rows) : keys(r);
      if (heads.window) seen = std::min(seen, heads.window + rows);
      of_head.push_back({{int32_t(r), int32_t(q)},
                         cdiv(seen, 128) * 8 + 5});  // 5: the cost of start and end
    }
  }
  std::stable_sort(of_head.begin(), of_head.end(),
                   [](const Cost& a, const Cost& b) { return a.cost > b.cost; });
  Loads loads(blocks);
  std::vector<std::vector<Tile>> dealt(static_cast<size_t>(blocks));
  for (int64_t head = 0; head < heads.count; ++head)
    for (const Cost& item : of_head)
      dealt[loads.give(item.cost)].push_back(
          {item.tile.request, item.tile.where << 8 | int32_t(head)});
  auto* bounds = static_cast<int32_t*>(blob);
  auto* tiles = reinterpret_cast<Tile*>(bounds + kBlocksMax + 2);
  int32_t n = 0;
  for (int b = 0; b < blocks; ++b) {
    bounds[b] = n;
    for (const Tile& tile : dealt[size_t(b)]) tiles[n++] = tile;
  }
  bounds[blocks] = n;
  return (kBlocksMax + 2) * 4 + n * int64_t(sizeof(Tile));
}

}  // namespace fkf
