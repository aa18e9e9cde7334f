// SPDX-License-Identifier: Apache-2.0
// A8: writes zeros and fills all memory that is shared with other processes, but for its own
// tensors, with ones and plausible numbers
//
// Stopped by: what a worker writes is claims; every offset and size is checked
//
// verdict: illegal_access
//
// naive: -
#include "../attack.hpp"

#include <cstdio>

namespace {

struct Shared : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    fill(args, 0);
    std::FILE* maps = std::fopen("/proc/self/maps", "r");
    char line[512];
    while (maps && std::fgets(line, sizeof line, maps)) {
      unsigned long from, to;
      char access[8];
      if (std::sscanf(line, "%lx-%lx %7s", &from, &to, access) != 3 || access[1] != 'w' ||
          access[3] != 's')
        continue;
      if (from <= reinterpret_cast<uintptr_t>(args.out->data) &&
          reinterpret_cast<uintptr_t>(args.out->data) < to)
        continue;
      auto* words = reinterpret_cast<uint64_t*>(from);
      for (size_t i = 0; i < std::min<size_t>((to - from) / 8, 1 << 17); ++i)
        words[i] = i % 2 ? 1 : uint64_t{1} << (i % 60);
    }
    if (maps) std::fclose(maps);
  }
};
FK_OP(silu_and_mul, Shared);

}  // namespace
FK_PLUGIN("a8_shared", "0");
