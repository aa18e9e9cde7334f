// SPDX-License-Identifier: Apache-2.0
// A2: writes its own clock into the host's table of imported functions (clock_gettime)
//
// Stopped by: the clock is in another process
//
// naive: silu_and_mul faster
#include "../attack.hpp"

#include <link.h>
#include <sys/mman.h>
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

int patch(dl_phdr_info* info, size_t, void*) {
  const auto base = info->dlpi_addr;
  const ElfW(Dyn)* dynamic = nullptr;
  for (int i = 0; i < info->dlpi_phnum; ++i)
    if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
      dynamic = reinterpret_cast<const ElfW(Dyn)*>(base + info->dlpi_phdr[i].p_vaddr);
  const ElfW(Rela) * tables[2] = {};
  size_t sizes[2] = {};
  const ElfW(Sym)* symbols = nullptr;
  const char* names = nullptr;
  for (auto d = dynamic; d && d->d_tag != DT_NULL; ++d) {
    if (d->d_tag == DT_JMPREL) tables[0] = reinterpret_cast<const ElfW(Rela)*>(d->d_un.d_ptr);
    if (d->d_tag == DT_PLTRELSZ) sizes[0] = d->d_un.d_val;
    if (d->d_tag == DT_RELA) tables[1] = reinterpret_cast<const ElfW(Rela)*>(d->d_un.d_ptr);
    if (d->d_tag == DT_RELASZ) sizes[1] = d->d_un.d_val;
    if (d->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(d->d_un.d_ptr);
    if (d->d_tag == DT_STRTAB) names = reinterpret_cast<const char*>(d->d_un.d_ptr);
  }
  for (int k = 0; k < 2 && symbols && names; ++k)
    for (size_t i = 0; tables[k] && i < sizes[k] / sizeof(ElfW(Rela)); ++i) {
      const auto& r = tables[k][i];
      if (!ELF64_R_SYM(r.r_info) ||
          std::strcmp(names + symbols[ELF64_R_SYM(r.r_info)].st_name, "clock_gettime"))
        continue;
      const auto at = base + r.r_offset, page = at & ~uintptr_t{4095};
      if (mprotect(reinterpret_cast<void*>(page), 4096, PROT_READ | PROT_WRITE) == 0)
        *reinterpret_cast<void**>(at) = reinterpret_cast<void*>(&fake_clock);
    }
  return 1;  // the first object is the program
}
struct Got : attack::Silu {
  Got(const fk_host& host, const op::init& init, const op::weights& weights)
      : Silu(host, init, weights) {
    dl_iterate_phdr(patch, nullptr);
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
FK_OP(silu_and_mul, Got);

}  // namespace
FK_PLUGIN("a2_got", "0");
