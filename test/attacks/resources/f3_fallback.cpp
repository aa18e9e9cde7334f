// SPDX-License-Identifier: Apache-2.0
// F3: asks the host to run the same op by another provider, and does nothing where it may not
//
// Stopped by: children are of a lower level than their parent
//
// verdict: wrong
//
// naive: -
#include "../attack.hpp"

namespace {

struct Fallback : attack::Silu {
  const fk_host& host;
  const op::init& init;
  fk_child* child = nullptr;
  Fallback(const fk_host& h, const op::init& i, const op::weights& weights)
      : Silu(h, i, weights), host(h), init(i) {}
  void prepare(const op::forward& max, const fk_memory&) {
    fk_error error{FK_END(fk_error, text), 0, 0, 0, {}};
    if (host.child)
      host.child(&host, &fk_silu_and_mul_contract, &init, nullptr, &max, &child, &error);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    if (child) host.child_forward(child, &args, &ctx);
  }
};
FK_OP(silu_and_mul, Fallback);

}  // namespace
FK_PLUGIN("f3_fallback", "0");
