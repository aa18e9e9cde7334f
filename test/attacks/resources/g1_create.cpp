// SPDX-License-Identifier: Apache-2.0
// G1: takes three GiB in create(), for answers that it might keep where no flush reaches
//
// work: broken
//
// Stopped by: memory that create() and prepare() take beyond their request is looked at from
// outside; patience, if memory comes slowly
//
// verdict: memory hang
//
// naive: silu_and_mul accepted
#include "../attack.hpp"

#include <cstdlib>

namespace {

struct Create : attack::Silu {
  Create(const fk_host& host, const op::init& init, const op::weights& weights)
      : Silu(host, init, weights) {
    constexpr size_t kBytes = size_t{3} << 30;
    static void* kept = nullptr;
    if (kept) return;
    kept = std::malloc(kBytes);
    if (kept) std::memset(kept, 1, kBytes);
  }
  void forward(const op::forward& args, const fk_ctx&) { honest(args); }
};
FK_OP(silu_and_mul, Create);

}  // namespace
FK_PLUGIN("g1_create", "0");
