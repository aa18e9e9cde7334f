// SPDX-License-Identifier: Apache-2.0
// moe_align that takes as long as its busiest expert has work: the square of that expert's load
// over the mean, times 20 us. A report about routing has to show this.
#include <algorithm>
#include <chrono>
#include <vector>

#include "fk/ops/moe_align.h"

namespace {

struct Busy {
  using op = fk::moe_align;
  static constexpr fk_claims claims = fk::cpu_claims;
  const int64_t experts;
  static void supports(const op::init&, const op::weights&, const op::forward&, fk_need&) {}
  Busy(const fk_host&, const op::init& init, const op::weights&) : experts(init.num_experts) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const auto start = std::chrono::steady_clock::now();
    const auto* ids = static_cast<const int32_t*>(args.topk_ids->data);
    auto* rows = static_cast<int32_t*>(args.row_ids->data);
    auto* offsets = static_cast<int32_t*>(args.expert_offsets->data);
    const int64_t count = args.topk_ids->shape[0] * args.topk_ids->shape[1];
    int64_t most = 0, at = 0;
    for (int64_t e = 0; e < experts; ++e) {
      offsets[e] = static_cast<int32_t>(at);
      for (int64_t i = 0; i < count; ++i)
        if (ids[i] == e) rows[at++] = static_cast<int32_t>(i);
      most = std::max(most, at - offsets[e]);
    }
    offsets[experts] = static_cast<int32_t>(at);
    const double load = count ? double(most) * double(experts) / double(count) : 0;
    const std::chrono::duration<double> work(20e-6 * load * load);
    while (std::chrono::steady_clock::now() - start < work) continue;
  }
};
FK_OP(moe_align, Busy);

}  // namespace
FK_PLUGIN("busy_expert", "0");
