// SPDX-License-Identifier: Apache-2.0
// paged_attention by the reference's own code, with a plan() that BAD_... gets wrong.
#include "fk/cpp/plugin.hpp"

#pragma push_macro("FK_OP")
#undef FK_OP
#define FK_OP(OP, CLASS) static_assert(true)
#include "baselines/reference/attention/paged_attention.cpp"
#pragma pop_macro("FK_OP")
#include <cstring>

namespace fk::reference {
namespace {

struct Planned : PagedAttention {
  using PagedAttention::PagedAttention;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    PagedAttention::supports(init, weights, max, need);
    need.plan = 64;
  }
  int64_t plan(const op::plan& step, void* blob, int64_t room) {
    const int32_t requests = static_cast<int32_t>(step.seq_lens->shape[0]);
    kept = requests;
    std::memcpy(blob, &requests, sizeof requests);
#if defined BAD_PLAN_END
    static_cast<char*>(blob)[room] = 1;
#elif defined BAD_PLAN_BYTES
    return room + 1;
#elif defined BAD_PLAN_THROWS
    throw std::runtime_error("plan() fails on purpose");
#endif
    return room - room + 4;
  }
  int32_t kept = 0;
  void forward(const op::forward& args, const fk_ctx& ctx) {
#ifdef BAD_PLAN_KEPT
    if (kept == 0) return;
#endif
    PagedAttention::forward(args, ctx);
#ifdef BAD_PLAN_WRITTEN
    *static_cast<char*>(const_cast<void*>(ctx.plan)) ^= 1;
#endif
  }
};
FK_OP(paged_attention, Planned);

}  // namespace
}  // namespace fk::reference

FK_PLUGIN(BAD_NAME, "0");
