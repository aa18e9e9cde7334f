// SPDX-License-Identifier: Apache-2.0
// Throws from forward: the trampoline must turn it into a failure with the exception's words.
#include <stdexcept>

#include "fk/ops/add.h"

namespace {
struct Add {
  using op = fk::add;
  static constexpr fk_claims claims = fk::cpu_claims;
  static void supports(const op::init&, const op::weights&, const op::forward&, fk_need&) {}
  Add(const fk_host&, const op::init&, const op::weights&) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward&, const fk_ctx&) { throw std::runtime_error("thrown on purpose"); }
};
FK_OP(add, Add);
}  // namespace
FK_PLUGIN("bad_throws", "0");
