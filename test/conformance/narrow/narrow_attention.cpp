// SPDX-License-Identifier: Apache-2.0
// paged_attention that computes places in the cache in 32 bits.
#define FK_REFERENCE "baselines/reference/attention/paged_attention.cpp"
#include "narrow_strides.hpp"
#include "test/attacks/reference.hpp"

namespace {
using Narrow = NarrowCaches<fk::reference::PagedAttention>;
FK_OP(paged_attention, Narrow);
}  // namespace
FK_PLUGIN("narrow_attention", "0");
