// SPDX-License-Identifier: Apache-2.0
// Writes a function over another in tables of imported functions.
#pragma once
#include <link.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>

namespace attack {

enum class Where { program, everywhere };

// Functions whose name begins with `name`, in the tables of the program or of all that is loaded.
inline void replace_import(const char* name, void* function, Where where) {
  struct Wanted {
    const char* name;
    void* function;
    Where where;
  } wanted{name, function, where};
  const auto patch = [](dl_phdr_info* info, size_t, void* data) -> int {
    const auto& w = *static_cast<const Wanted*>(data);
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
    const bool relocated = reinterpret_cast<uintptr_t>(names) >= 1 << 16;  // the vdso is not
    for (int k = 0; k < 2 && symbols && relocated; ++k)
      for (size_t i = 0; tables[k] && i < sizes[k] / sizeof(ElfW(Rela)); ++i) {
        const auto& r = tables[k][i];
        const auto symbol = ELF64_R_SYM(r.r_info);
        if (!symbol || std::strncmp(names + symbols[symbol].st_name, w.name, std::strlen(w.name)))
          continue;
        const auto at = base + r.r_offset, page = at & ~uintptr_t{4095};
        if (mprotect(reinterpret_cast<void*>(page), 4096, PROT_READ | PROT_WRITE) == 0)
          *reinterpret_cast<void**>(at) = w.function;
      }
    return w.where == Where::program;  // the first object is the program
  };
  dl_iterate_phdr(patch, &wanted);
}

}  // namespace attack
