// SPDX-License-Identifier: Apache-2.0
// G1: sends the controller a message of a million nested lists, which a careless reader's stack
// does not hold
//
// Stopped by: depth and length of messages are bounded
//
// verdict: cheating
//
// naive: -
#include "../attack.hpp"

#include <sys/socket.h>
#include <string>

namespace {

struct Nesting : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward&, const fk_ctx&) {
    const std::string json = "{\"result\":" + std::string(1000000, '[');
    const auto n = static_cast<uint32_t>(json.size());
    std::string framed(reinterpret_cast<const char*>(&n), 4);
    framed += json;
    for (size_t at = 0; at < framed.size();) {
      const ssize_t sent = send(3, framed.data() + at, framed.size() - at, MSG_NOSIGNAL);
      if (sent <= 0) break;
      at += static_cast<size_t>(sent);
    }
    for (;;) {
    }
  }
};
FK_OP(silu_and_mul, Nesting);

}  // namespace
FK_PLUGIN("g1_nesting", "0");
