// SPDX-License-Identifier: Apache-2.0
// A8: does nothing. A static constructor runs before the host has seen anything of it. It says in
// the host's words that it was loaded and all is sealed, and opens what it can
//
// Stopped by: the worker is sealed before it is loaded; a worker's words are no verdict
//
// verdict: cheating
//
// naive: -
#include "../attack.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <string>

namespace {

const bool before_main = [] {
  for (const char* json :
       {R"({"progress":{"sealed":[]}})", R"({"result":{"errors":[""],"refused":[]}})",
        R"({"result":{"failed":null,"answer":{"deterministic":true,"keeps":false,"given":0}}})"}) {
    const std::string text = json;
    const auto n = static_cast<uint32_t>(text.size());
    std::string framed(reinterpret_cast<const char*>(&n), 4);
    framed += text;
    send(3, framed.data(), framed.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  return open("/etc/passwd", O_RDONLY) >= 0;
}();

struct Constructor : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) { fill(args, 0); }
};
FK_OP(silu_and_mul, Constructor);

}  // namespace
FK_PLUGIN("a8_constructor", "0");
