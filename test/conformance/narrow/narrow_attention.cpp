// SPDX-License-Identifier: Apache-2.0
// paged_attention that computes places in the cache in 32 bits.
#define FK_REFERENCE "baselines/reference/attention/paged_attention.cpp"
#include "narrow_strides.hpp"
#include "test/attacks/reference.hpp"

namespace {

struct Offsets : fk::reference::PagedAttention {
  using PagedAttention::PagedAttention;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const NarrowStrides k(args.k_cache), v(args.v_cache);
    op::forward own = args;
    own.k_cache = k.view();
    own.v_cache = v.view();
    PagedAttention::forward(own, ctx);
  }
};
FK_OP(paged_attention, Offsets);

}  // namespace
FK_PLUGIN("narrow_attention", "0");
