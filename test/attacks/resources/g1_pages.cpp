// SPDX-License-Identifier: Apache-2.0
// G1: keeps four pages in every call; they come from the system and not from the allocator, whose
// accounts do not show them
//
// work: broken
//
// Stopped by: pages of the process that become more in every round of calls
//
// verdict: violation
//
// naive: silu_and_mul accepted
#include "../attack.hpp"

#include <sys/mman.h>

namespace {

struct Pages : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    constexpr size_t kBytes = 4 * 4096;
    void* const kept =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (kept != MAP_FAILED) std::memset(kept, 1, kBytes);
    honest(args);
  }
};
FK_OP(silu_and_mul, Pages);

}  // namespace
FK_PLUGIN("g1_pages", "0");
