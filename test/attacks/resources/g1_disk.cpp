// SPDX-License-Identifier: Apache-2.0
// G1: writes 8 MiB into the folder for temporary files and leaves them there
//
// Stopped by: the sandbox opens no files for writing
//
// verdict: violation
//
// naive: silu_and_mul accepted
#include "../attack.hpp"

#include <unistd.h>
#include <cstdlib>

namespace {

struct Disk : attack::Silu {
  using Silu::Silu;
  bool done = false;
  void forward(const op::forward& args, const fk_ctx&) {
    honest(args);
    if (done) return;
    done = true;
    char path[] = "/tmp/fk-attack-g1-XXXXXX";
    const int fd = mkstemp(path);
    const std::vector<char> block(1 << 20, 1);
    for (int i = 0; i < 8 && fd >= 0; ++i)
      if (write(fd, block.data(), block.size()) < 0) break;
    if (fd >= 0) close(fd);
  }
};
FK_OP(silu_and_mul, Disk);

}  // namespace
FK_PLUGIN("g1_disk", "0");
