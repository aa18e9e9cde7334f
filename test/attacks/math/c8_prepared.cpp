// SPDX-License-Identifier: Apache-2.0
// C8: has the number of rows from prepare(), which is the largest: a call with fewer leaves its
// output as it was
//
// Stopped by: instances that were prepared for a case are called with fewer rows
//
// verdict: wrong
//
// naive: rms_norm accepted
//
// work: broken
#include "../attack.hpp"

namespace {

struct Prepared : attack::Norm {
  using Norm::Norm;
  static constexpr fk_claims claims = [] {
    fk_claims its = fk::cpu_claims;
    its.batch_invariant = 0;  // or the claim would be tried with fewer rows
    return its;
  }();
  int64_t most = 0;
  void prepare(const op::forward& max, const fk_memory&) { most = max.x->shape[0]; }
  void forward(const op::forward& args, const fk_ctx&) {
    if (rows(args) == most) honest(args);
  }
};
FK_OP(rms_norm, Prepared);

}  // namespace
FK_PLUGIN("c8_prepared", "0");
