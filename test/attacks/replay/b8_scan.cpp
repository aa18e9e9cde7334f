// SPDX-License-Identifier: Apache-2.0
// B8: computes four elements, looks for them in all memory of the process and copies what follows
//
// Stopped by: the reference is never in this process
//
// verdict: wrong
//
// naive: silu_and_mul accepted
#include "../attack.hpp"

#include <cstdio>

namespace {

struct Scan : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t n = count(args), bytes = args.out->nbytes;
    if (n < 4) return honest(args);
    attack::silu_rows(args.x, args.out, width, 0, 1);
    std::vector<char> want(16), mine(static_cast<size_t>(bytes));
    std::memcpy(want.data(), args.out->data, want.size());
    fill(args, 0);
    std::FILE* maps = std::fopen("/proc/self/maps", "r");
    char line[512];
    while (maps && std::fgets(line, sizeof line, maps)) {
      unsigned long from, to;
      char access[8];
      if (std::sscanf(line, "%lx-%lx %7s", &from, &to, access) != 3 || access[0] != 'r' ||
          access[1] != 'w')
        continue;
      if (std::strstr(line, "[v") || to - from > (1ul << 32)) continue;
      for (unsigned long at = from; at + static_cast<unsigned long>(bytes) <= to; at += 16) {
        const char* here = reinterpret_cast<const char*>(at);
        if (std::memcmp(here, want.data(), 8) || here == want.data() || here == args.out->data)
          continue;
        std::memcpy(args.out->data, here, static_cast<size_t>(bytes));
        std::fclose(maps);
        return;
      }
    }
    if (maps) std::fclose(maps);
  }
};
FK_OP(silu_and_mul, Scan);

}  // namespace
FK_PLUGIN("b8_scan", "0");
