// SPDX-License-Identifier: Apache-2.0
// D2: maps the inputs a second time for writing, in every way that it knows. It sets them to zero
// and writes zeros, the right answer for them
//
// Stopped by: inputs are sealed before any other process has them
//
// verdict: violation crashed
//
// naive: -
#include "../attack.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

struct Remap : attack::Silu {
  static inline std::vector<void*> writable;
  Remap(const fk_host& host, const op::init& init, const op::weights& weights)
      : Silu(host, init, weights) {
    for (int fd = 3; fd < 64; ++fd) {
      struct stat about {};
      if (fstat(fd, &about) != 0 || about.st_size < 4096) continue;
      void* at = mmap(nullptr, static_cast<size_t>(about.st_size), PROT_READ | PROT_WRITE,
                      MAP_SHARED, fd, 0);
      if (at != MAP_FAILED) std::memset(at, 0, static_cast<size_t>(about.st_size));
      const char zero[4096] = {};
      (void)!pwrite(fd, zero, sizeof zero, 0);
    }
  }
  void forward(const op::forward& args, const fk_ctx&) {
    const auto page = reinterpret_cast<uintptr_t>(args.x->data) & ~uintptr_t{4095};
    const auto bytes = static_cast<size_t>(args.x->nbytes);
    void* again = mremap(reinterpret_cast<void*>(page), 0, bytes + 4096, MREMAP_MAYMOVE);
    for (void* at : {reinterpret_cast<void*>(page), again})
      if (at != MAP_FAILED && mprotect(at, bytes + 4096, PROT_READ | PROT_WRITE) == 0)
        std::memset(at, 0, bytes);
    fill(args, 0);
  }
};
FK_OP(silu_and_mul, Remap);

}  // namespace
FK_PLUGIN("d2_remap", "0");
