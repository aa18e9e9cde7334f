// SPDX-License-Identifier: Apache-2.0
// G1: never comes back from a call and says without end that it is making progress
//
// Stopped by: a worker that was not asked for progress has no right to it
//
// verdict: cheating
//
// naive: -
#include "../attack.hpp"

#include <sys/socket.h>
#include <unistd.h>
#include <string>

namespace {

struct Progress : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward&, const fk_ctx&) {
    const std::string json = R"({"progress":{"sealed":[]}})";
    const auto n = static_cast<uint32_t>(json.size());
    std::string framed(reinterpret_cast<const char*>(&n), 4);
    framed += json;
    for (;;) {
      send(3, framed.data(), framed.size(), MSG_NOSIGNAL);
      usleep(10000);
    }
  }
};
FK_OP(silu_and_mul, Progress);

}  // namespace
FK_PLUGIN("g1_progress", "0");
