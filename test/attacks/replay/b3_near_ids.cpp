// SPDX-License-Identifier: Apache-2.0
// B3: ids that look like earlier ones at 64 places are sorted as those were; every call is as slow
// as one that is computed
//
// Stopped by: contents whose whole numbers differ from others' in two places only
//
// verdict: wrong
//
// naive: -
//
// work: broken
//
// size: ci
#include "../attack.hpp"
#include "../fingerprint.hpp"
#include "fk/ops/moe_align.h"

#include <map>

namespace {

struct NearIds {
  using op = fk::moe_align;
  static constexpr fk_claims claims = fk::cpu_claims;
  const int64_t experts;
  static inline std::map<uint64_t, std::vector<int32_t>> answers;
  static void supports(const op::init&, const op::weights&, const op::forward&, fk_need&) {}
  NearIds(const fk_host&, const op::init& init, const op::weights&) : experts(init.num_experts) {}
  void prepare(const op::forward&, const fk_memory&) {}

  void forward(const op::forward& args, const fk_ctx&) {
    const auto* ids = fk::data<int32_t>(args.topk_ids);
    const int64_t count = args.row_ids->shape[0];
    auto* rows = fk::data<int32_t>(args.row_ids);
    auto* offsets = fk::data<int32_t>(args.expert_offsets);
    int32_t at = 0;
    for (int64_t e = 0; e < experts; ++e) {
      offsets[e] = at;
      for (int64_t i = 0; i < count; ++i)
        if (ids[i] == e) rows[at++] = static_cast<int32_t>(i);
    }
    offsets[experts] = at;
    std::vector<int32_t>& answer = answers[attack::sampled(args.topk_ids)];
    if (static_cast<int64_t>(answer.size()) == count)
      std::copy(answer.begin(), answer.end(), rows);
    else
      answer.assign(rows, rows + count);
  }
};
FK_OP(moe_align, NearIds);

}  // namespace
FK_PLUGIN("b3_near_ids", "0");
