// SPDX-License-Identifier: Apache-2.0
// Ops with counted outputs and with lists, done right by the reference's own code except for one
// thing afterwards, which BAD_... chooses.
#include "fk/cpp/plugin.hpp"

#pragma push_macro("FK_OP")
#undef FK_OP
#define FK_OP(OP, CLASS) static_assert(true)
#include "baselines/reference/embed/embedding_bag.cpp"
#include "baselines/reference/sparse/sparse_conv_neighbor_map.cpp"
#include "baselines/reference/splat/gaussian_tile_intersection.cpp"
#pragma pop_macro("FK_OP")

namespace fk::reference {
namespace {

#if defined BAD_TABLE
struct Wrong : EmbeddingBag {
  using EmbeddingBag::EmbeddingBag;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    EmbeddingBag::forward(args, ctx);
    auto* out = data<float>(args.out);
    for (int64_t i = 0; i < args.out->shape[0] * args.out->shape[1] * args.out->shape[2]; ++i)
      if (i / args.out->shape[2] % args.out->shape[1] == 1) out[i] = -out[i];
  }
};
FK_OP(embedding_bag, Wrong);
#elif defined BAD_PAIR || defined BAD_ANY_ORDER
struct Wrong : NeighborMap {
  using NeighborMap::NeighborMap;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    NeighborMap::forward(args, ctx);
    struct Pair {
      int32_t in, out;
    };
    for (int64_t k = 0; k < args.pairs->shape[0]; ++k) {
      Pair* pairs = data<Pair>(args.pairs) + k * args.pairs->shape[1];
      const int32_t count = data<int32_t>(args.pair_counts)[k];
#ifdef BAD_PAIR
      if (count > 1) std::swap(pairs[0].in, pairs[1].in);
#else
      std::reverse(pairs, pairs + count);
#endif
    }
  }
};
FK_OP(sparse_conv_neighbor_map, Wrong);
#else
struct Wrong : TileIntersection {
  using TileIntersection::TileIntersection;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    [[maybe_unused]] auto* ids = data<int32_t>(args.flatten_ids);
    [[maybe_unused]] const int64_t capacity = args.flatten_ids->shape[0];
#ifdef BAD_SHORT
    int32_t kept[512];
    std::copy_n(ids, std::min<int64_t>(capacity, 512), kept);
#endif
    TileIntersection::forward(args, ctx);
    [[maybe_unused]] const int64_t count = data<int64_t>(args.n_isects)[0];
#if defined BAD_COUNT
    data<int64_t>(args.n_isects)[0] = count + 1;
#elif defined BAD_OVERFLOW
    if (count > capacity) ids[capacity] = 0;
#elif defined BAD_LAST_ROW
    if (count && count <= capacity) ids[count - 1] ^= 1;
#elif defined BAD_ORDER
    if (count > 1 && count <= capacity) std::swap(ids[0], ids[count - 1]);
#elif defined BAD_SHORT
    if (count && count <= std::min<int64_t>(capacity, 512)) ids[count - 1] = kept[count - 1];
#endif
  }
};
FK_OP(gaussian_tile_intersection, Wrong);
#endif

}  // namespace
}  // namespace fk::reference

FK_PLUGIN(BAD_NAME, "0");
