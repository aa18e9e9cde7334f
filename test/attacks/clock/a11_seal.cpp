// SPDX-License-Identifier: Apache-2.0
// A11: seals the shared outputs while their descriptor is open in create(). So the baseline cannot
// map them for writing, and no rival is left. Each call sleeps for a millisecond
//
// Stopped by: shared memory is sealed against seals; the sandbox refuses to seal
//
// verdict: slower same cannot_tell
//
// work: honest
//
// naive: -
#include "../attack.hpp"

#include <fcntl.h>
#include <unistd.h>

namespace {

struct Seal : attack::Silu {
  Seal(const fk_host& host, const op::init& init, const op::weights& weights)
      : Silu(host, init, weights) {
    constexpr int kFutureWrite = 0x10;
    for (int fd = 3; fd < 64; ++fd) fcntl(fd, F_ADD_SEALS, kFutureWrite);
  }
  void forward(const op::forward& args, const fk_ctx&) {
    honest(args);
    usleep(1000);
  }
};
FK_OP(silu_and_mul, Seal);

}  // namespace
FK_PLUGIN("a11_seal", "0");
