// SPDX-License-Identifier: Apache-2.0
// gated_mlp that asks for children where, or for what, it must not: BAD_... says which.
#define FK_GATED_MLP_EDITION 2
#include "fk/ops/gated_mlp.h"

#include <stdexcept>

namespace {

struct Mlp {
  using op = fk::gated_mlp;
  static constexpr fk_claims claims = fk::cpu_claims;
  const fk_host& host;
  const op::init& init;
  const op::weights& weights;
  static void supports(const op::init&, const op::weights&, const op::forward&, fk_need&) {}
  Mlp(const fk_host& h, const op::init& i, const op::weights& w) : host(h), init(i), weights(w) {}
  void ask(const fk_contract& contract, const void* max) {
    fk_error error{FK_END(fk_error, text), 0, 0, 0, {}};
    fk_child* child = nullptr;
    if (host.child(&host, &contract, &init, &weights, max, &child, &error) != FK_OK)
      throw std::runtime_error(error.text);
  }
  void prepare([[maybe_unused]] const op::forward& max, const fk_memory&) {
#ifdef BAD_CHILD_LEVEL
    ask(fk_gated_mlp_contract, &max);  // itself
#endif
  }
  void forward([[maybe_unused]] const op::forward& args, const fk_ctx&) {
#ifdef BAD_CHILD_LATE
    ask(fk_gated_mlp_contract, &args);
#endif
  }
};
FK_OP(gated_mlp, Mlp);

}  // namespace
FK_PLUGIN(BAD_NAME, "0");
