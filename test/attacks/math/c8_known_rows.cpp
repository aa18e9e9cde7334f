// SPDX-License-Identifier: Apache-2.0
// C8: right for few rows and for as many as the contract's cases have, which everybody can read; a
// copy for all others
//
// Stopped by: large cases are also called with fewer rows, a number that nobody can foresee
//
// verdict: wrong
//
// naive: rms_norm accepted
//
// work: broken
//
// size: ci
#include "../attack.hpp"

namespace {

struct KnownRows : attack::Norm {
  using Norm::Norm;
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t n = rows(args);
    if (n <= 16 || n == 32 || n == 37 || n == 512 || n == 8192) return honest(args);
    std::memcpy(args.out->data, args.x->data, static_cast<size_t>(args.out->nbytes));
  }
};
FK_OP(rms_norm, KnownRows);

}  // namespace
FK_PLUGIN("c8_known_rows", "0");
