// SPDX-License-Identifier: Apache-2.0
// A8: writes zeros, and messages that say that all is well to every open descriptor, framed as the
// host frames its own
//
// Stopped by: what a worker says is no verdict; a message that makes no sense ends it
//
// verdict: cheating
//
// naive: -
#include "../attack.hpp"

#include <sys/socket.h>
#include <unistd.h>
#include <string>

namespace {

void say(int fd, const std::string& json) {
  const auto n = static_cast<uint32_t>(json.size());
  std::string framed(reinterpret_cast<const char*>(&n), 4);
  framed += json;
  if (send(fd, framed.data(), framed.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && fd > 2 &&
      write(fd, framed.data(), 0) < 0)
    return;
}
struct Channel : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    fill(args, 0);
    for (int fd = 3; fd < 64; ++fd) {
      say(fd,
          R"({"progress": {"op": "silu_and_mul", "provider": "a8_channel", "case": "smoke0", "variant": "as written", "status": "ok", "rule": "", "text": "", "worst": 0}})");
      say(fd, R"({"result": {"verdict": "correct"}})");
      say(fd, R"({"task": {}})");
      say(fd, R"({"done": true, "verdict": "correct", "status": "ok"})");
    }
    _exit(0);
  }
};
FK_OP(silu_and_mul, Channel);

}  // namespace
FK_PLUGIN("a8_channel", "0");
