// SPDX-License-Identifier: Apache-2.0
// The modes of a thread's arithmetic: a change is seen, and undone.
#include "core/base/float_modes.hpp"

#include <cfenv>
#include <limits>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "test/catch.hpp"

TEST_CASE("float_modes_that_change_are_told_and_put_back", "[base]") {
  const fk::FloatModes before = fk::FloatModes::now();
  {
    const fk::KeptModes kept;
    CHECK(kept.changed().empty());
    std::fesetround(FE_UPWARD);
    CHECK_THAT(kept.changed(), ContainsSubstring("rounding mode"));
  }
  CHECK(before.changed_in(fk::FloatModes::now()).empty());
#if defined(__x86_64__)
  {
    const fk::KeptModes kept;
    _mm_setcsr(_mm_getcsr() | 0x8040u);  // flush to zero, denormals are zero
    CHECK_THAT(kept.changed(), ContainsSubstring("denormals"));
  }
  {
    const fk::KeptModes kept;
    uint16_t word = 0;
    __asm__ volatile("fnstcw %0" : "=m"(word));
    word = static_cast<uint16_t>(word & ~0x300u);  // long double with 24 bits
    __asm__ volatile("fldcw %0" : : "m"(word));
    CHECK_THAT(kept.changed(), ContainsSubstring("long double"));
  }
#endif
  CHECK(before.changed_in(fk::FloatModes::now()).empty());
  volatile float least = std::numeric_limits<float>::denorm_min();
  CHECK(least * 1.0F > 0);
}
