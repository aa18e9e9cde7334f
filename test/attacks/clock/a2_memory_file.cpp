// SPDX-License-Identifier: Apache-2.0
// A2: the jump of a2_detour, written through /proc/self/mem, which asks for no permission of pages
//
// Stopped by: the clock is in another process; the sandbox opens no files
//
// verdict: violation
//
// naive: silu_and_mul faster
#include "../attack.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace {

// A clock that stands still while forward() runs.
thread_local int64_t hidden = 0;
int fake_clock(clockid_t clock, timespec* out) {
  const long status = syscall(SYS_clock_gettime, clock, out);
  int64_t now = int64_t{out->tv_sec} * 1000000000 + out->tv_nsec - hidden;
  out->tv_sec = now / 1000000000, out->tv_nsec = now % 1000000000;
  return static_cast<int>(status);
}

struct MemoryFile : attack::Silu {
  MemoryFile(const fk_host& host, const op::init& init, const op::weights& weights)
      : Silu(host, init, weights) {
    auto* code = reinterpret_cast<unsigned char*>(&clock_gettime);
    void* target = reinterpret_cast<void*>(&fake_clock);
#if defined __x86_64__
    unsigned char jump[14] = {0xff, 0x25, 0, 0, 0, 0};
    std::memcpy(jump + 6, &target, 8);
#else
    unsigned char jump[16] = {0x50, 0, 0, 0x58, 0, 2, 0x1f, 0xd6};  // ldr x16, 8; br x16
    std::memcpy(jump + 8, &target, 8);
#endif
    const int memory = open("/proc/self/mem", O_RDWR);
    if (memory >= 0 && pwrite(memory, jump, sizeof jump, reinterpret_cast<off_t>(code)) < 0)
      hidden = 0;
  }

  void forward(const op::forward& args, const fk_ctx&) {
    timespec a, b;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &a);
    honest(args);
    usleep(200);
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &b);
    hidden += (b.tv_sec - a.tv_sec) * 1000000000 + b.tv_nsec - a.tv_nsec;
  }
};
FK_OP(silu_and_mul, MemoryFile);

}  // namespace
FK_PLUGIN("a2_memory_file", "0");
