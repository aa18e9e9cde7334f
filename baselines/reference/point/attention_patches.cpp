// SPDX-License-Identifier: Apache-2.0
// attention_patches: cloud by cloud, then the cells behind the clouds unless there is a mask, then
// places that remain.
#define FK_ATTENTION_PATCHES_EDITION 2  // with the field that the contract marks `since: 2`
#include "fk/ops/attention_patches.h"

#include "op.hpp"

namespace fk::reference {
namespace {

struct AttentionPatches : Base<attention_patches> {
  using Base::Base;
  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need& need) {
    need.scratch = max.rows->shape[0] * 4;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t cells = args.rows->shape[0], all = args.padded_rows->shape[0];
    const auto *rows = data<int32_t>(args.rows), *clouds = data<int32_t>(args.clouds);
    auto *padded = data<int32_t>(args.padded_rows), *places = data<int32_t>(args.places);
    auto* cu = data<int32_t>(args.cu_seqlens);
    const int64_t patch = init.patch_size;
    const fk_out* mask = args.mask.or_null;
    const auto cover = [&](int64_t from, int64_t to, float value) {
      if (mask) std::fill(data<float>(mask) + from, data<float>(mask) + to, value);
    };
    constexpr float kNoCell = -std::numeric_limits<float>::infinity();
    auto* place_of = static_cast<int32_t*>(ctx.scratch);  // of a rank
    int64_t at = 0, begun = 0;
    const auto put = [&](int64_t i) {
      place_of[i] = static_cast<int32_t>(at);
      padded[at++] = rows[i];
    };
    for (int64_t b = 0; b + 1 < args.clouds->shape[0]; ++b) {
      const int64_t first = at, count = clouds[b + 1] - clouds[b];
      for (int64_t i = clouds[b]; i < clouds[b + 1]; ++i) put(i);
      const int64_t end = at;
      while ((mask || count > patch) && (at - first) % patch) {
        padded[at] = count > patch ? padded[at - patch] : 0;
        ++at;
      }
      cover(first, count > patch ? at : end, 0);
      if (count < patch) cover(end, at, kNoCell);
      for (int64_t j = first; j < at; j += patch) cu[begun++] = static_cast<int32_t>(j);
    }
    const int64_t behind = at;
    const int64_t counted = clouds[args.clouds->shape[0] - 1];
    if (mask) {
      std::fill(place_of + counted, place_of + cells, 0);
      cover(at, mask->shape[0] * patch, kNoCell);
    } else {
      for (int64_t i = counted; i < cells; ++i) put(i);
    }
    for (int64_t t = 0; t < cells; ++t) places[t] = place_of[index<int32_t>(args.ranks, t)];
    std::fill(padded + at, padded + all, 0);
    for (int64_t j = behind; j < all; j += patch) cu[begun++] = static_cast<int32_t>(j);
    std::fill(cu + begun, cu + args.cu_seqlens->shape[0], static_cast<int32_t>(all));
  }
};
FK_OP(attention_patches, AttentionPatches);

}  // namespace
}  // namespace fk::reference
