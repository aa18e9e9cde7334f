// SPDX-License-Identifier: Apache-2.0
// attention_patches: one thread copies; memory bounds its time.
#include "level.hpp"

#ifdef FK_CPU_OPS
#define FK_ATTENTION_PATCHES_EDITION 2  // with the field that the contract marks `since: 2`
#include "fk/ops/attention_patches.h"
#include "op.hpp"

namespace fk::cpu {

struct AttentionPatchesOp {
  using op = fk::attention_patches;
  static constexpr fk_claims claims = cpu_claims;
  static constexpr float kNoCell = -std::numeric_limits<float>::infinity();

  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need& need) {
    need.scratch = max.rows->shape[0] * 4;
  }
  AttentionPatchesOp(const fk_host&, const op::init& init, const op::weights&) : init_(init) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t cells = args.rows->shape[0], all = args.padded_rows->shape[0];
    const int64_t clouds = args.clouds->shape[0] - 1, patch = init_.patch_size;
    const auto *rows = data<int32_t>(args.rows), *firsts = data<int32_t>(args.clouds);
    auto *padded = data<int32_t>(args.padded_rows), *places = data<int32_t>(args.places);
    auto* cu = data<int32_t>(args.cu_seqlens);
    auto* place_of = static_cast<int32_t*>(ctx.scratch);  // of a rank
    const fk_out* mask = args.mask.or_null;
    int64_t at = 0, begun = 0;
    for (int64_t b = 0; b <= clouds; ++b) {
      const int64_t from = firsts[b], count = (b < clouds ? firsts[b + 1] : cells) - from;
      const int64_t room = b == clouds             ? all - at
                           : mask || count > patch ? (count + patch - 1) / patch * patch
                                                   : count;
      const bool placed = b < clouds || !mask;
      for (int64_t i = 0; i < count; ++i) {
        if (placed) padded[at + i] = rows[from + i];
        place_of[from + i] = placed ? static_cast<int32_t>(at + i) : 0;
      }
      const bool filled = b < clouds && count > patch;
      for (int64_t i = placed ? count : 0; i < room; ++i)
        padded[at + i] = filled ? padded[at + i - patch] : 0;
      if (mask) {
        const int64_t end = std::min(at + room, mask->shape[0] * patch);
        const int64_t seen = filled ? end : at + (placed ? count : 0);
        std::fill(data<float>(mask) + at, data<float>(mask) + seen, 0.0F);
        std::fill(data<float>(mask) + seen, data<float>(mask) + end, kNoCell);
      }
      for (int64_t i = 0; i < room; i += patch) cu[begun++] = static_cast<int32_t>(at + i);
      at += room;
    }
    const auto* ranks = data<int32_t>(args.ranks);
    for (int64_t t = 0; t < cells; ++t) places[t] = place_of[ranks[t]];
    std::fill(cu + begun, cu + args.cu_seqlens->shape[0], static_cast<int32_t>(all));
  }

 private:
  const op::init& init_;
};
FK_OP(attention_patches, AttentionPatchesOp);

}  // namespace fk::cpu
#endif
