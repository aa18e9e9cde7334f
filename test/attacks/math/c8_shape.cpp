// SPDX-License-Identifier: Apache-2.0
// C8: right for small shapes, a copy for large ones
//
// Stopped by: every timed shape and every timed call is compared
//
// verdict: wrong
//
// naive: rms_norm faster
//
// size: ci
#include "../attack.hpp"

namespace {

struct Shape : attack::Norm {
  using Norm::Norm;
  void forward(const op::forward& args, const fk_ctx&) {
    if (rows(args) <= 16) return honest(args);
    for (int64_t t = 0; t < rows(args); ++t) sum_row(args, t);
    std::memset(args.out->data, 0, static_cast<size_t>(args.out->nbytes));
  }
};
FK_OP(rms_norm, Shape);

}  // namespace
FK_PLUGIN("c8_shape", "0");
