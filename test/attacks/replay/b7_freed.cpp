// SPDX-License-Identifier: Apache-2.0
// B7: allocates as much as the output is and hands on what an earlier owner left there
//
// Stopped by: the reference is never in this process
//
// verdict: wrong
//
// naive: rms_norm accepted
#include "../attack.hpp"

#include <cstdlib>

namespace {

struct Freed : attack::Norm {
  using Norm::Norm;
  void forward(const op::forward& args, const fk_ctx&) {
    const auto bytes = static_cast<size_t>(args.out->nbytes);
    void* found = std::malloc(bytes);
    // The first words of a freed block are the allocator's; those are computed.
    std::memcpy(args.out->data, found, bytes);
    std::free(found);
  }
};
FK_OP(rms_norm, Freed);

}  // namespace
FK_PLUGIN("b7_freed", "0");
