// SPDX-License-Identifier: Apache-2.0
// A8: answers the controller's question itself, in its own words and with a time of its own, while
// the work goes on. The host's answer comes for the next question
//
// Stopped by: an answer that nobody asked for ends the worker
//
// verdict: cheating wrong
//
// work: honest
//
// naive: -
#include "../attack.hpp"

#include <sys/socket.h>
#include <string>

namespace {

struct Answer : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    honest(args);
    const std::string json =
        R"({"result":{"failed":null,"answer":{"call_s":1e-9,"captured":false,"late":false,"span":null,"facts":null}}})";
    const auto n = static_cast<uint32_t>(json.size());
    std::string framed(reinterpret_cast<const char*>(&n), 4);
    framed += json;
    send(3, framed.data(), framed.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
};
FK_OP(silu_and_mul, Answer);

}  // namespace
FK_PLUGIN("a8_answer", "0");
