// SPDX-License-Identifier: Apache-2.0
// B8: finds other tensors of the output's size in memory and fills them and the output with NaN
//
// Stopped by: the reference is never in this process; NaN where the reference has none is wrong
//
// verdict: wrong
//
// naive: rms_norm accepted
#include "../attack.hpp"

#include <cstdlib>

namespace {

struct Nan : attack::Norm {
  using Norm::Norm;
  void forward(const op::forward& args, const fk_ctx&) {
    for (int64_t t = 0; t < rows(args); ++t) sum_row(args, t);
    std::memset(args.out->data, 0xff, static_cast<size_t>(args.out->nbytes));
    // Blocks of malloc of the output's size: their header says it.
    std::vector<void*> blocks;
    for (int i = 0; i < 8; ++i) {
      blocks.push_back(std::malloc(static_cast<size_t>(args.out->nbytes)));
      std::memset(blocks.back(), 0xff, static_cast<size_t>(args.out->nbytes));
    }
    for (void* block : blocks) std::free(block);
  }
};
FK_OP(rms_norm, Nan);

}  // namespace
FK_PLUGIN("b8_nan", "0");
