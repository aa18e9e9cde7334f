// SPDX-License-Identifier: Apache-2.0
// A2: the clock of its process goes at a tenth of its speed while the work goes on, which never
// looks as if nothing had been done
//
// Stopped by: what the broker's clock sees beyond the claim is added to the claim
//
// work: honest
//
// size: ci
//
// naive: -
#include "../attack.hpp"

#include <link.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace {

int64_t hidden = 0;
int64_t now() {
  timespec t;
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1000000000 + t.tv_nsec;
}
int slow_clock(clockid_t, timespec* out) {
  const int64_t t = now() - hidden;
  out->tv_sec = t / 1000000000, out->tv_nsec = t % 1000000000;
  return 0;
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
  if (reinterpret_cast<uintptr_t>(names) < 1 << 16) return 0;  // of the vdso, not relocated
  for (int k = 0; k < 2 && symbols && names; ++k)
    for (size_t i = 0; tables[k] && i < sizes[k] / sizeof(ElfW(Rela)); ++i) {
      const auto& r = tables[k][i];
      if (!ELF64_R_SYM(r.r_info) ||
          std::strcmp(names + symbols[ELF64_R_SYM(r.r_info)].st_name, "clock_gettime"))
        continue;
      const auto at = base + r.r_offset, page = at & ~uintptr_t{4095};
      if (mprotect(reinterpret_cast<void*>(page), 4096, PROT_READ | PROT_WRITE) == 0)
        *reinterpret_cast<void**>(at) = reinterpret_cast<void*>(&slow_clock);
    }
  return 0;
}

struct Modest : attack::Silu {
  Modest(const fk_host& host, const op::init& init, const op::weights& weights)
      : Silu(host, init, weights) {
    dl_iterate_phdr(patch, nullptr);
  }
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t start = now();
    honest(args);
    hidden += (now() - start) / 10 * 9;
  }
};
FK_OP(silu_and_mul, Modest);

}  // namespace
FK_PLUGIN("a2_modest", "0");
