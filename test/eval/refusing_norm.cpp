// SPDX-License-Identifier: Apache-2.0
// global_response_norm for a width that nobody has, so it refuses every call.
#include "fk/ops/global_response_norm.h"

namespace {

struct Picky {
  using op = fk::global_response_norm;
  static constexpr fk_claims claims = fk::cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward&, fk_need&) {
    throw fk::unsupported{"x: another width only"};
  }
  Picky(const fk_host&, const op::init&, const op::weights&) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward&, const fk_ctx&) {}
};
FK_OP(global_response_norm, Picky);

}  // namespace
FK_PLUGIN("picky", "1");
