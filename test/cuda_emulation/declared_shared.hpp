// SPDX-License-Identifier: Apache-2.0
// Shared memory that kernels declare is thread-local in the emulation (cuda_runtime.h). This says
// where this thread has the plugin's, so clusters which run in turns have their own.
#pragma once
#include <link.h>

#include <cstddef>
#include <cstdint>

namespace fk_emulation {

inline thread_local char thread_local_here = 0;
struct Bytes {
  char* at = nullptr;
  size_t count = 0;
};
// `of`: anything of the plugin that is not thread-local.
inline Bytes declared_shared(const void* of) {
  static_cast<volatile char&>(thread_local_here) = 0;  // so that there are some
  struct Search {
    uintptr_t of;
    Bytes found;
  } search{reinterpret_cast<uintptr_t>(of), {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* to) {
        auto& search = *static_cast<Search*>(to);
        const ElfW(Phdr)* tls = nullptr;
        bool here = false;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& segment = info->dlpi_phdr[i];
          const uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
          if (segment.p_type == PT_LOAD)
            here |= search.of >= begin && search.of < begin + segment.p_memsz;
          if (segment.p_type == PT_TLS) tls = &segment;
        }
        if (!here || !tls) return 0;
        search.found = {static_cast<char*>(info->dlpi_tls_data), tls->p_memsz};
        return 1;
      },
      &search);
  return search.found;
}

}  // namespace fk_emulation
