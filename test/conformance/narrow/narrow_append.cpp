// SPDX-License-Identifier: Apache-2.0
// kv_cache_append that computes places in the cache in 32 bits.
#define FK_REFERENCE "baselines/reference/cache/kv_cache_append.cpp"
#include "narrow_strides.hpp"
#include "test/attacks/reference.hpp"

namespace {
using Narrow = NarrowCaches<fk::reference::KvCacheAppend>;
FK_OP(kv_cache_append, Narrow);
}  // namespace
FK_PLUGIN("narrow_append", "0");
