// SPDX-License-Identifier: Apache-2.0
// A11: moves all other processes that it may to one core and the lowest priority, to slow the
// baseline's worker
//
// Stopped by: the sandbox refuses to change others
//
// verdict: slower same cannot_tell
//
// work: honest
//
// naive: -
#include "../attack.hpp"

#include <sys/resource.h>
#include <unistd.h>
#include <cstdio>

namespace {

struct Neighbours : attack::Silu {
  using Silu::Silu;
  bool done = false;
  void forward(const op::forward& args, const fk_ctx&) {
    honest(args);
    if (done) return;
    done = true;
    int changed = 0;
    // Only those with the same parent, and that parent.
    for (pid_t pid = getppid(); pid < getppid() + 64; ++pid) {
      char path[64], text[512] = {};
      std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
      std::FILE* file = pid == getpid() ? nullptr : std::fopen(path, "r");
      if (!file) continue;
      const size_t n = std::fread(text, 1, sizeof text - 1, file);
      std::fclose(file);
      const char* after = n ? std::strrchr(text, ')') : nullptr;
      int parent = 0;
      if (!after || std::sscanf(after, ") %*c %d", &parent) != 1 ||
          (parent != getppid() && pid != getppid()))
        continue;
      changed += setpriority(PRIO_PROCESS, static_cast<id_t>(pid), 19) == 0;
    }
    if (changed) fill(args, 0);  // so that somebody notices
  }
};
FK_OP(silu_and_mul, Neighbours);

}  // namespace
FK_PLUGIN("a11_neighbours", "0");
