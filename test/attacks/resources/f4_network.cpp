// SPDX-License-Identifier: Apache-2.0
// F4: fetches its answer from the network; without one it does nothing
//
// Stopped by: the sandbox has no sockets
//
// verdict: violation
//
// naive: -
#include "../attack.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

struct Network : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(9);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd >= 0 && connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0)
      honest(args);
    if (fd >= 0) close(fd);
  }
};
FK_OP(silu_and_mul, Network);

}  // namespace
FK_PLUGIN("f4_network", "0");
