// SPDX-License-Identifier: Apache-2.0
// Reads and writes the control registers of the floating-point units (float_modes.hpp).
#include "core/base/float_modes.hpp"

#include <cfenv>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace fk {

namespace {

uint64_t control_bits() {
#if defined(__x86_64__)
  return _mm_getcsr() & 0xffc0u;  // without the six exception flags
#elif defined(__aarch64__)
  return __builtin_aarch64_get_fpcr64();
#else
  return 0;
#endif
}

uint16_t x87_control() {
  uint16_t word = 0;
#if defined(__x86_64__)
  __asm__ volatile("fnstcw %0" : "=m"(word));
#endif
  return word;
}

}  // namespace

FloatModes FloatModes::now() {
  FloatModes modes;
  modes.modes_ = control_bits();
  modes.x87_ = x87_control();
  modes.rounding_ = std::fegetround();
  return modes;
}

std::string FloatModes::changed_in(const FloatModes& later) const {
  if (rounding_ != later.rounding_) return "the rounding mode of its thread was changed";
  if (modes_ != later.modes_)
    return "the floating point modes of its thread were changed (denormals, rounding, traps)";
  if (x87_ != later.x87_)
    return "the floating point modes of its thread were changed (precision of long double, traps)";
  return "";
}

void FloatModes::put_back() const {
  std::fesetround(rounding_);
#if defined(__x86_64__)
  _mm_setcsr(static_cast<unsigned>(modes_));
  __asm__ volatile("fldcw %0" : : "m"(x87_));
#elif defined(__aarch64__)
  __builtin_aarch64_set_fpcr64(modes_);
#endif
}

}  // namespace fk
