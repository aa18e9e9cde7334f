// SPDX-License-Identifier: Apache-2.0
// The mode in which denormals are 0, for the thread that asks for it.
#pragma once
#include <cstdint>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace attack {

inline void flush_denormals() {
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x8040u);
#elif defined(__aarch64__)
  __builtin_aarch64_set_fpcr64(__builtin_aarch64_get_fpcr64() | uint64_t{1} << 24);
#endif
}

}  // namespace attack
