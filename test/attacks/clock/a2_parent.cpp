// SPDX-License-Identifier: Apache-2.0
// A2: writes zeros, and a thread turns the bad words in the memory of the parent, which holds the
// verdict, into good ones
//
// Stopped by: the sandbox refuses process_vm_writev; the controller belongs to another user or is
// not dumpable
//
// verdict: wrong
//
// naive: -
#include "../attack.hpp"

#include <sys/uio.h>
#include <unistd.h>
#include <cstdio>
#include <string>
#include <thread>

namespace {

struct Word {
  const char *bad, *good;
};
constexpr Word kWords[] = {
    {"violation", "ok\0\0\0\0\0\0"}, {"wrong", "ok\0\0"}, {"unwritten", "\0\0\0\0\0\0\0\0"}};
void tamper() {
  const pid_t parent = getppid();
  std::vector<char> block(1 << 20);
  for (int round = 0; round < 200; ++round) {
    std::FILE* maps = std::fopen(("/proc/" + std::to_string(parent) + "/maps").c_str(), "r");
    char line[512];
    while (maps && std::fgets(line, sizeof line, maps)) {
      unsigned long from, to;
      if (!std::strstr(line, "[heap]") || std::sscanf(line, "%lx-%lx", &from, &to) != 2) continue;
      for (; from < to; from += block.size()) {
        iovec local = {block.data(), std::min<size_t>(block.size(), to - from)},
              remote = {reinterpret_cast<void*>(from), local.iov_len};
        const ssize_t got = process_vm_readv(parent, &local, 1, &remote, 1, 0);
        for (const Word& word : kWords) {
          const size_t n = std::strlen(word.bad);
          for (ssize_t at = 0; at + static_cast<ssize_t>(n) < got; ++at) {
            if (std::memcmp(&block[static_cast<size_t>(at)], word.bad, n)) continue;
            iovec good = {const_cast<char*>(word.good), n - 1},
                  there = {reinterpret_cast<void*>(from + static_cast<unsigned long>(at)), n - 1};
            process_vm_writev(parent, &good, 1, &there, 1, 0);
          }
        }
      }
    }
    if (maps) std::fclose(maps);
    usleep(500);
  }
}
struct Parent : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    static bool begun = false;
    if (!begun) begun = true, std::thread(tamper).detach();
    fill(args, 0);
  }
};
FK_OP(silu_and_mul, Parent);

}  // namespace
FK_PLUGIN("a2_parent", "0");
