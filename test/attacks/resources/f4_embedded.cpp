// SPDX-License-Identifier: Apache-2.0
// F4: writes a shared object, its own file, into memory and loads that, where no linter looks; does
// nothing without it
//
// Stopped by: the sandbox refuses memfd_create and opens no other files
//
// verdict: wrong
//
// naive: -
#include "../attack.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <string>

namespace {

struct Embedded : attack::Silu {
  void (*rows_of)(const fk_in*, const fk_out*, int64_t, int64_t, int64_t) = nullptr;
  Embedded(const fk_host& host, const op::init& init, const op::weights& weights)
      : Silu(host, init, weights) {
    Dl_info self;
    if (!dladdr(reinterpret_cast<void*>(&attack::silu_rows), &self)) return;
    const int from = open(self.dli_fname, O_RDONLY),
              to = static_cast<int>(syscall(SYS_memfd_create, "kernel", 0));
    char block[4096];
    for (ssize_t n; from >= 0 && to >= 0 && (n = read(from, block, sizeof block)) > 0;)
      if (write(to, block, static_cast<size_t>(n)) != n) break;
    const std::string path = "/proc/self/fd/" + std::to_string(to);
    if (to >= 0 && dlopen(path.c_str(), RTLD_NOW)) rows_of = attack::silu_rows;
    if (from >= 0) close(from);
    if (to >= 0) close(to);
  }
  void forward(const op::forward& args, const fk_ctx&) {
    if (rows_of) rows_of(args.x, args.out, width, 0, rows(args));
  }
};
FK_OP(silu_and_mul, Embedded);

}  // namespace
FK_PLUGIN("f4_embedded", "0");
