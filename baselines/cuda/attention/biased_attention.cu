// SPDX-License-Identifier: Apache-2.0
// biased_attention on tensor cores: images with biases or masks by flash_attention2.cuh, many rows
// without them by flash_attention3.cuh.
#include "../parts/op.cuh"
#include "fk/ops/biased_attention.h"
#include "flash_attention3_plan.cuh"
#include "image_rows.cuh"

namespace {
using namespace fkc;

struct BiasedAttention : Base<fk::biased_attention> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_16bit(max.q);
    need(init.num_heads % init.num_kv_heads == 0, "num_heads is not a multiple of num_kv_heads");
    need(init.head_dim % 8 == 0 && init.head_dim <= 256, "head_dim: a multiple of 8 up to 256");
    need(init.scale > 0, "scale: above 0 only");
    for (const fk_in* view : {max.q, max.k, max.v, fk_as_in(max.out)}) need_aligned(view);
    for (const fk_in* view : {max.bias.or_null, max.mask.or_null})
      need(!view || FK_DTYPE(view) == FK_F32 || FK_DTYPE(view) == FK_DTYPE(max.q),
           "bias and mask: the dtype of q or float32 only");
    need(max.q->shape[0] * init.num_heads * cdiv(max.q->shape[1], 16 * kWarps) < int64_t{1} << 31 &&
             max.q->shape[1] < 1 << 30 && max.k->shape[1] < 1 << 30,
         "images: fewer or smaller");
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    if (!fk_numel(a.q)) return;
    dispatch(a.q, [&](auto type) {
      if (in_tiles(a))
        attend_in_tiles<decltype(type)>(a, ctx);
      else
        attend<decltype(type)>(a, ctx);
    });
  }

 private:
  // A view [images * rows, heads, width] of [images, rows, heads, width].
  struct Flat {
    int64_t shape[3], strides[3];
    fk_out view;
    explicit Flat(const fk_in* of)
        : shape{of->shape[0] * of->shape[1], of->shape[2], of->shape[3]},
          strides{of->strides[1], of->strides[2], 1},
          view{} {
      view.data = const_cast<void*>(static_cast<const void*>(of->data));
      view.device_type = of->device_type, view.device_id = of->device_id, view.ndim = 3;
      view.dtype = of->dtype, view.shape = shape, view.strides = strides, view.nbytes = of->nbytes;
    }
    const fk_in* in() const { return fk_as_in(&view); }
  };
  static bool has_no_gaps(const fk_in* view) {
    return view->shape[0] == 1 || view->strides[0] == view->shape[1] * view->strides[1];
  }
  // Many rows of equal scores by flash_attention3.cuh, whose tiles are larger. It needs a tile for
  // each multiprocessor.
  bool in_tiles(const op::forward& a) const {
    const tiles::Heads heads(init.num_heads, init.num_kv_heads, init.head_dim);
    const int64_t items = a.q->shape[0] * heads.units * tiles::image_tiles(a.q->shape[1], heads);
    return !a.bias.or_null && !a.mask.or_null && !a.head_scale.or_null && init.head_dim > 32 &&
           init.head_dim <= 128 && a.k->shape[1] > tiles::kKeys / 2 && items >= sm_count() &&
           items < 1 << 30 && has_no_gaps(a.q) && has_no_gaps(a.k) && has_no_gaps(a.v) &&
           has_no_gaps(fk_as_in(a.out));
  }
  template <class T>
  void attend_in_tiles(const op::forward& a, const fk_ctx& ctx) const {
    tiles::Arguments p{};
    p.out = a.out->data, p.out_token = a.out->strides[1], p.out_head = a.out->strides[2];
    p.scale = float(init.scale) * kLog2e;
    const Flat q(a.q), k(a.k), v(a.v);
    tiles::attend_images<T>(p, {init.num_heads, init.num_kv_heads, init.head_dim}, a.q->shape[0],
                            q.in(), k.in(), v.in(), ctx);
  }
  template <class T>
  void attend(const op::forward& a, const fk_ctx& ctx) const {
    ImageParams<T> p{};
    p.q = image_view(a.q), p.k = image_view(a.k), p.v = image_view(a.v);
    p.out = image_view(fk_as_in(a.out));
    p.bias = added_scores<T>(a.bias.or_null, true), p.mask = added_scores<T>(a.mask.or_null, false);
    p.head_scale = fk::data<float>(a.head_scale);
    p.queries = int(a.q->shape[1]), p.keys = int(a.k->shape[1]), p.width = int(init.head_dim);
    p.heads = int(init.num_heads), p.group = int(init.num_heads / init.num_kv_heads);
    p.tiles = int(cdiv(p.queries, 16 * kWarps)), p.scale = float(init.scale);
    const unsigned blocks = unsigned(a.q->shape[0] * p.heads * p.tiles);
    const bool added = a.bias.or_null || a.mask.or_null;
    with_width(init.head_dim, [&](auto width) {
      constexpr int kD = decltype(width)::value, kBytes = kFlashAttention2Bytes<T, kD>;
      const auto kernel = added ? flash_attention2<ImageRows<T, true>, kD>
                                : flash_attention2<ImageRows<T, false>, kD>;
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
      launch(kernel, blocks, kThreads, size_t(kBytes), ctx, p);
    });
  }
};
FK_OP(biased_attention, BiasedAttention);

}  // namespace
