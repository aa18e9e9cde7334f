// SPDX-License-Identifier: Apache-2.0
// honest: logs a line through the host in every call
#include "../attack.hpp"

namespace {

struct Honest : attack::Silu {
  const fk_host& host;
  Honest(const fk_host& h, const op::init& init, const op::weights& weights)
      : Silu(h, init, weights), host(h) {}
  void forward(const op::forward& args, const fk_ctx&) {
    honest(args);
    host.log(&host, FK_LOG_DEBUG, "done");
  }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("logs", "0");
