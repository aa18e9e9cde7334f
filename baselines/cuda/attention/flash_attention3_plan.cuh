// SPDX-License-Identifier: Apache-2.0
// flash_attention3.cuh as a step of an op: its limits, its plan, and its launch.
#pragma once
#include <functional>
#include <type_traits>
#include <vector>

#include "../parts/op.cuh"
#include "../parts/tensor_map.cuh"
#include "flash_attention3.cuh"

namespace fkc::tiles {

// Heads, and their division into tiles. If the number of heads with one key head divides a tile's
// rows, its rows are tokens times these heads. Else each head has tiles of its own.
struct Heads {
  int64_t group, pack, units, dim;
  Heads(int64_t heads, int64_t key_heads, int64_t head_dim)
      : group(heads / key_heads), pack(group <= kRows && (group & (group - 1)) == 0 ? group : 1), units(heads / pack), dim(head_dim) {}
};

// The length of a block's list. Tiles differ in size, so a block with small tiles has more of them.
inline int64_t most_turns(int64_t tiles, int64_t blocks) { return 2 * cdiv(tiles, blocks) + 1; }
inline int64_t plan_bytes(int64_t tokens, int64_t requests, const Heads& h) {
  const int64_t tiles = (cdiv(tokens * h.pack, kRows) + requests) * h.units, blocks = sm_count();
  return blocks * most_turns(tiles, blocks) * int64_t{sizeof(Work)};
}

struct Request {
  int64_t token, tokens, keys, where;  // `where`: as in Work
};

// Writes lists for all blocks. Tiles with the most keys come first, and each goes to the block with
// the least work until then. If keys are many, key heads follow each other, as many at a time as L2
// has room for. Returns the bytes of the plan. With one token for each request, the bytes do not
// depend on the keys, as a graph may have captured the step.
template <class RequestOf> int64_t plan(int64_t requests, const Heads& h, int64_t window, bool causal, RequestOf request_of, void* blob) {
  constexpr int64_t kCache = int64_t{24} << 20;
  const int64_t step = kRows / h.pack;
  std::vector<Work> tiles;
  int64_t most_keys = 1, most_tokens = 0;
  for (int64_t r = 0; r < requests; ++r) {
    const Request request = request_of(r);
    if (request.tokens) most_keys = std::max(most_keys, request.keys), most_tokens = std::max(most_tokens, request.tokens);
    for (int64_t token = 0; token < request.tokens; token += step) {
      const int64_t tokens = std::min(step, request.tokens - token), position = request.keys - request.tokens + token, last = position + tokens - 1;
      const int64_t low = window ? std::max<int64_t>(position - window + 1, 0) : 0, high = causal ? last + 1 : window ? last + window : request.keys;
      const int64_t begin = std::min(low, std::max<int64_t>(request.keys - 1, 0)) / kKeys, end = std::max(cdiv(std::min(high, request.keys), kKeys), begin + 1);
      tiles.push_back({int(request.token + token), int(tokens * h.pack), int(position), int(request.keys), int(request.where), int(begin), int(end), 0});
    }
  }
  // A captured step counts requests without a token too.
  const bool steady = most_tokens == 1;
  const int64_t all = (steady ? requests : int64_t(tiles.size())) * h.units, blocks = std::min<int64_t>(all, sm_count());
  if (tiles.empty()) return 0;
  std::stable_sort(tiles.begin(), tiles.end(), [](const Work& a, const Work& b) { return a.end - a.begin > b.end - b.begin; });
  const int64_t section = std::max<int64_t>(kCache / (most_keys * h.dim * 4), 1) * (h.group / h.pack);
  const auto each = [&](auto visit) {
    for (int64_t unit = 0; unit < h.units; unit += section)
      for (const Work& tile : tiles)
        for (int64_t u = unit; u < std::min(unit + section, h.units); ++u) visit(tile, int(u));
  };
  // The work of each block in the upper bits, its number in the lower ones. The block with the
  // least work is on top.
  std::vector<uint64_t> free;
  for (int64_t b = 0; b < blocks; ++b) free.push_back(uint64_t(b));
  const int most = int(steady ? cdiv(all, blocks) : most_turns(all, blocks));
  int turns = steady ? most : 0;
  std::vector<int> counts(static_cast<size_t>(blocks)), block_of;
  each([&](const Work& tile, int) {
    std::pop_heap(free.begin(), free.end(), std::greater<>());
    uint64_t& least = free.back();
    const int block = int(least & 0xffff);
    block_of.push_back(block);
    turns = std::max(turns, ++counts[size_t(block)]);
    least += uint64_t(tile.end - tile.begin + 1) << 16;
    if (counts[size_t(block)] < most) std::push_heap(free.begin(), free.end(), std::greater<>());
    else free.pop_back();
  });
  auto* const work = static_cast<Work*>(blob);
  for (int64_t b = 0; b < blocks; ++b) std::fill(work + b * turns + counts[size_t(b)], work + (b + 1) * turns, Work{});
  std::vector<Work*> to;
  for (int64_t b = 0; b < blocks; ++b) to.push_back(work + b * turns);
  size_t item = 0;
  each([&](const Work& tile, int unit) {
    Work& own = *to[size_t(block_of[item++])]++;
    own = tile;
    own.unit = unit;
  });
  return blocks * turns * int64_t{sizeof(Work)};
}

inline uint64_t bytes_of(int64_t elements) { return uint64_t(elements) * 2; }
// Keys or values in rows.
inline CUtensorMap map_of_rows(const fk_in* of, const fk_in* q, int64_t head_dim) {
  if (!of->shape[0]) of = q;  // no keys: any memory which can be read, as no row sees it
  return tensor_map<3>(of->data, FK_DTYPE(of) == FK_BF16, {uint64_t(head_dim), uint64_t(of->shape[0]), uint64_t(of->shape[1])}, {bytes_of(of->strides[0]), bytes_of(of->strides[1])},
                       {64, kKeys, 1});
}
// Keys or values in pages [page, slot, head].
inline CUtensorMap map_of_pages(const fk_in* of) {
  return tensor_map<4>(of->data, FK_DTYPE(of) == FK_BF16, {uint64_t(of->shape[3]), uint64_t(of->shape[1]), uint64_t(of->shape[2]), uint64_t(of->shape[0])},
                       {bytes_of(of->strides[1]), bytes_of(of->strides[2]), bytes_of(of->strides[0])}, {64, uint32_t(std::min<int64_t>(of->shape[1], kKeys)), 1, 1});
}

// f(D) with the narrowest width of tiles which holds a head. kPadded: not only 64 and 128.
template <bool kPadded, class F> void with_tile_width(int64_t dim, F f) {
  if (dim <= 64) return f(std::integral_constant<int, 64>{});
  if constexpr (kPadded) {
    if (dim <= 80) return f(std::integral_constant<int, 80>{});
    if (dim <= 96) return f(std::integral_constant<int, 96>{});
  }
  f(std::integral_constant<int, 128>{});
}

// `a`: all but the packing of heads. With tables, k and v are in pages.
template <class T, bool kPadded> void launch_tiles(Arguments a, const Heads& h, int64_t blocks, const fk_in* q, const fk_in* k, const fk_in* v, const fk_ctx& ctx) {
  a.group = int(h.group), a.dim = int(h.dim), a.pack_shift = 0;
  while (int64_t{1} << a.pack_shift < h.pack) ++a.pack_shift;
  const CUtensorMap queries =
      tensor_map<4>(q->data, FK_DTYPE(q) == FK_BF16, {uint64_t(h.dim), uint64_t(h.pack), uint64_t(q->shape[0]), uint64_t(h.units)},
                    {bytes_of(q->strides[1]), bytes_of(q->strides[0]), bytes_of(h.pack * q->strides[1])}, {64, uint32_t(h.pack), uint32_t(kRows / h.pack), 1});
  const Place place = !a.tables ? Place::rows : k->shape[1] >= kPageLeast && k->shape[0] ? Place::pages : Place::small_pages;
  const auto map_of = [&](const fk_in* of) { return place == Place::rows ? map_of_rows(of, q, h.dim) : place == Place::pages ? map_of_pages(of) : queries; };
  const auto go = [&](auto size, auto its_place) {
    constexpr int kD = decltype(size)::value, kShared = Shared<kD>::kTotal;
    const auto kernel = flash_attention3<T, kD, decltype(its_place)::value>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
    launch(kernel, dim3(unsigned(blocks)), dim3(kThreads), size_t(kShared), ctx, queries, map_of(k), map_of(v), a);
  };
  if (place == Place::rows) return with_tile_width<kPadded>(h.dim, [&](auto size) { go(size, std::integral_constant<Place, Place::rows>{}); });
  if constexpr (!kPadded) {
    with_tile_width<false>(h.dim, [&](auto size) {
      if (place == Place::pages) go(size, std::integral_constant<Place, Place::pages>{});
      else go(size, std::integral_constant<Place, Place::small_pages>{});
    });
  }
}

// `a`: all but the plan and the packing of heads. kPadded: k and v are in rows, and heads have any
// width up to 128 which is a multiple of 8.
template <class T, bool kPadded = false> void attend(Arguments a, const Heads& h, const fk_in* q, const fk_in* k, const fk_in* v, const fk_ctx& ctx) {
  if (!ctx.plan_bytes) return;
  // plan() has a list for each multiprocessor, or one item for each of fewer blocks.
  const int64_t works = ctx.plan_bytes / int64_t{sizeof(Work)}, blocks = std::min<int64_t>(works, sm_count());
  a.work = static_cast<const Work*>(ctx.plan), a.turns = int(works / blocks);
  launch_tiles<T, kPadded>(a, h, blocks, q, k, v, ctx);
}

// Tiles of images of the same size.
inline int64_t image_tiles(int64_t queries, const Heads& h) { return cdiv(queries * h.pack, kRows); }
// Images of the same size, in rows of q, k and v without gaps between images.
template <class T> void attend_images(Arguments a, const Heads& h, int64_t images, const fk_in* q, const fk_in* k, const fk_in* v, const fk_ctx& ctx) {
  a.images = int(images), a.queries = int(q->shape[0] / images), a.keys = int(k->shape[0] / images), a.units = int(h.units);
  a.image_tiles = int(image_tiles(a.queries, h));
  const int64_t items = images * h.units * a.image_tiles, blocks = std::min<int64_t>(items, sm_count());
  a.turns = int(cdiv(items, blocks));
  launch_tiles<T, true>(a, h, blocks, q, k, v, ctx);
}

}  // namespace fkc::tiles
