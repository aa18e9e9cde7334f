// SPDX-License-Identifier: Apache-2.0
// A11: returns the pages of outputs that it does not write now to the system. The baseline shares
// them, and faults on every one while it is timed
//
// Stopped by: the sandbox lets nobody take pages out of shared memory
//
// verdict: slower same cannot_tell
//
// work: honest
//
// size: ci
//
// naive: -
#include "../attack.hpp"

#include <sys/mman.h>
#include <unistd.h>

namespace {

struct Punch : attack::Silu {
  static inline std::vector<const fk_out*> others;
  static inline std::vector<fk_out> outs;
  const void* known = nullptr;
  using Silu::Silu;
  static void punch(const fk_out& out) {
    const auto first = (reinterpret_cast<uintptr_t>(out.data) + 4095) & ~uintptr_t{4095};
    const auto last = (reinterpret_cast<uintptr_t>(out.data) + static_cast<uintptr_t>(out.nbytes)) &
                      ~uintptr_t{4095};
    if (last <= first) return;
    if (madvise(reinterpret_cast<void*>(first), last - first, MADV_REMOVE) != 0) return;
    for (auto at = first; at < last; at += 4096) *reinterpret_cast<volatile char*>(at) = 0;
  }
  void forward(const op::forward& args, const fk_ctx&) {
    if (!known) outs.push_back(*args.out);
    known = args.out->data;
    // The one that comes before is done, and its answer is kept aside for a moment.
    static std::vector<char> kept;
    honest(args);
    kept.assign(static_cast<char*>(args.out->data),
                static_cast<char*>(args.out->data) + args.out->nbytes);
    punch(*args.out);
    std::memcpy(args.out->data, kept.data(), kept.size());
  }
};
FK_OP(silu_and_mul, Punch);

}  // namespace
FK_PLUGIN("a11_punch", "0");
