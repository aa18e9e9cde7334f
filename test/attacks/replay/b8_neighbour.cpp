// SPDX-License-Identifier: Apache-2.0
// B8: computes four elements and looks for them in the memory of its parent and of its siblings
//
// Stopped by: the sandbox refuses process_vm_readv; another user owns the oracle
//
// verdict: wrong
//
// naive: -
#include "../attack.hpp"

#include <sys/uio.h>
#include <unistd.h>
#include <cstdio>
#include <string>

namespace {

struct Neighbour : attack::Silu {
  using Silu::Silu;
  bool look_in(long pid, const op::forward& args, const char* want) {
    const auto bytes = static_cast<size_t>(args.out->nbytes);
    std::FILE* maps = std::fopen(("/proc/" + std::to_string(pid) + "/maps").c_str(), "r");
    char line[512];
    bool found = false;
    std::vector<char> block(1 << 20);
    while (maps && !found && std::fgets(line, sizeof line, maps)) {
      unsigned long from, to;
      char access[8];
      if (std::sscanf(line, "%lx-%lx %7s", &from, &to, access) != 3 || access[1] != 'w' ||
          to - from > (1ul << 28))
        continue;
      for (; from < to && !found; from += block.size() - bytes % block.size()) {
        iovec local = {block.data(), std::min<size_t>(block.size(), to - from)};
        iovec remote = {reinterpret_cast<void*>(from), local.iov_len};
        if (process_vm_readv(static_cast<pid_t>(pid), &local, 1, &remote, 1, 0) <= 0) break;
        for (size_t at = 0; at + bytes <= local.iov_len; at += 16) {
          if (std::memcmp(&block[at], want, 16)) continue;
          std::memcpy(args.out->data, &block[at], bytes);
          found = true;
          break;
        }
        if (bytes >= block.size()) break;
      }
    }
    if (maps) std::fclose(maps);
    return found;
  }
  void forward(const op::forward& args, const fk_ctx&) {
    if (args.out->nbytes < 16) return honest(args);
    attack::silu_rows(args.x, args.out, width, 0, 1);
    char want[16];
    std::memcpy(want, args.out->data, sizeof want);
    fill(args, 0);
    const long parent = getppid(), self = getpid();
    if (look_in(parent, args, want)) return;
    for (long pid = self - 8; pid < self + 8; ++pid)
      if (pid > 1 && pid != self && look_in(pid, args, want)) return;
  }
};
FK_OP(silu_and_mul, Neighbour);

}  // namespace
FK_PLUGIN("b8_neighbour", "0");
