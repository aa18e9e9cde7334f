// SPDX-License-Identifier: Apache-2.0
// Instruction set levels. The build compiles every op file once per level (provider.cmake). A
// file's kernels are in a namespace named after the level. The op class exists only in the
// `generic` pass and picks the best kernel that the processor runs. So one plugin is fast on
// AVX-512 and still starts on every processor.
//
// Kernels must not call functions of the standard library that are templates or inline. The linker
// keeps one copy of such a function for all levels. That copy could have instructions that this
// processor lacks.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>

#ifndef FK_CPU_LEVEL
#error "the build says which level this pass is for: -DFK_CPU_LEVEL=generic, avx2 or avx512"
#endif

#define FK_INLINE inline __attribute__((always_inline))

namespace fk::cpu {

enum class Level { generic, avx2, avx512 };

#ifdef FK_CPU_OPS
// The level of this processor; FK_CPU_LEVEL_MAX=generic|avx2 in the environment lowers it, for
// tests.
inline Level level() {
#ifdef FK_CPU_X86
  static const Level found = [] {
    __builtin_cpu_init();
    const char* cap = std::getenv("FK_CPU_LEVEL_MAX");
    if (cap != nullptr && std::strcmp(cap, "generic") == 0) return Level::generic;
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (cap != nullptr && std::strcmp(cap, "avx2") == 0) return avx2 ? Level::avx2 : Level::generic;
    return avx512 ? Level::avx512 : avx2 ? Level::avx2 : Level::generic;
  }();
  return found;
#else
  return Level::generic;
#endif
}
#endif

// FK_CPU_KERNEL(name, parameters...) declares the kernel at every level. FK_CPU_PICK(name) is its
// address at the processor's level. Parameter types live outside the level namespaces and have no
// member functions.
#ifdef FK_CPU_X86
#define FK_CPU_KERNEL(NAME, ...) \
  namespace fk::cpu {            \
  namespace generic {            \
  void NAME(__VA_ARGS__);        \
  }                              \
  namespace avx2 {               \
  void NAME(__VA_ARGS__);        \
  }                              \
  namespace avx512 {             \
  void NAME(__VA_ARGS__);        \
  }                              \
  }
#define FK_CPU_PICK(NAME)                                              \
  (fk::cpu::level() == fk::cpu::Level::avx512 ? &fk::cpu::avx512::NAME \
   : fk::cpu::level() == fk::cpu::Level::avx2 ? &fk::cpu::avx2::NAME   \
                                              : &fk::cpu::generic::NAME)
#else
#define FK_CPU_KERNEL(NAME, ...) \
  namespace fk::cpu {            \
  namespace generic {            \
  void NAME(__VA_ARGS__);        \
  }                              \
  }
#define FK_CPU_PICK(NAME) (&fk::cpu::generic::NAME)
#endif

}  // namespace fk::cpu
