// SPDX-License-Identifier: Apache-2.0
// B2: an op of whole numbers alone. It knows an earlier input by all of its numbers and copies the
// answer out of a table. Recorded inputs are the same in every call, so it is right and quick
//
// Stopped by: contents of every call are new. Recorded cases have their rows in another order each
// time; if that is not enough, times are not compared
//
// verdict: slower same cannot_tell
//
// naive: -
//
// work: honest
//
// captured: mixtral
#include <cstring>
#include <map>
#include <vector>

#include "fk/ops/moe_align.h"

namespace {

struct Recorded {
  using op = fk::moe_align;
  using Numbers = std::vector<int32_t>;
  static constexpr fk_claims claims = fk::cpu_claims;
  const int64_t experts;
  std::map<Numbers, std::pair<Numbers, Numbers>> answers;
  static void supports(const op::init&, const op::weights&, const op::forward&, fk_need&) {}
  Recorded(const fk_host&, const op::init& init, const op::weights&) : experts(init.num_experts) {}
  void prepare(const op::forward&, const fk_memory&) {}
  std::pair<Numbers, Numbers> sorted(const Numbers& ids) const {
    Numbers rows, offsets{0};
    for (int32_t e = 0; e < experts; ++e) {
      for (size_t i = 0; i < ids.size(); ++i)
        if (ids[i] == e) rows.push_back(static_cast<int32_t>(i));
      offsets.push_back(static_cast<int32_t>(rows.size()));
    }
    return {rows, offsets};
  }
  void forward(const op::forward& args, const fk_ctx&) {
    const auto* ids = static_cast<const int32_t*>(args.topk_ids->data);
    const Numbers key(ids, ids + args.row_ids->shape[0]);
    auto& [rows, offsets] = answers[key];
    if (offsets.empty()) std::tie(rows, offsets) = sorted(key);
    std::memcpy(args.row_ids->data, rows.data(), rows.size() * sizeof(int32_t));
    std::memcpy(args.expert_offsets->data, offsets.data(), offsets.size() * sizeof(int32_t));
  }
};
FK_OP(moe_align, Recorded);

}  // namespace
FK_PLUGIN("b2_recorded", "0");
