// SPDX-License-Identifier: Apache-2.0
// A2: writes its own function over cudaEventElapsedTime in the host's table of imports
//
// Stopped by: the verdict's clock is in another process; the two clocks must agree
//
// naive: -
#include "attack.cuh"

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

namespace {

cudaError_t quick(float* ms, cudaEvent_t, cudaEvent_t) {
  *ms = 1e-3f;
  return cudaSuccess;
}
int patch(dl_phdr_info* info, size_t, void*) {
  const auto base = info->dlpi_addr;
  const ElfW(Dyn)* d = nullptr;
  for (int i = 0; i < info->dlpi_phnum; ++i)
    if (info->dlpi_phdr[i].p_type == PT_DYNAMIC) d = reinterpret_cast<const ElfW(Dyn)*>(base + info->dlpi_phdr[i].p_vaddr);
  const ElfW(Rela)* tables[2] = {};
  size_t sizes[2] = {};
  const ElfW(Sym)* symbols = nullptr;
  const char* names = nullptr;
  for (; d && d->d_tag != DT_NULL; ++d) {
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
      const char* name = names + symbols[ELF64_R_SYM(r.r_info)].st_name;
      if (!ELF64_R_SYM(r.r_info) || std::strncmp(name, "cudaEventElapsedTime", 20)) continue;
      const auto at = base + r.r_offset;
      if (mprotect(reinterpret_cast<void*>(at & ~uintptr_t{4095}), 4096, PROT_READ | PROT_WRITE) == 0)
        *reinterpret_cast<void**>(at) = reinterpret_cast<void*>(&quick);
    }
  return 1;
}
struct Elapsed : attack::Silu {
  using Silu::Silu;
  Elapsed(const fk_host& host, const op::init& init, const op::weights& weights) : Silu(host, init, weights) { dl_iterate_phdr(patch, nullptr); }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    dawdle(stream(ctx));
    honest(args, stream(ctx));
  }
};
FK_OP(silu_and_mul, Elapsed);

}  // namespace
FK_PLUGIN("cuda_a2_elapsed", "0");
