// SPDX-License-Identifier: Apache-2.0
// float16 for the emulation, as the reference has it.
#pragma once
#include "element.hpp"

using __half = fk::reference::F16;
inline float __half2float(__half v) { return static_cast<float>(fk::reference::value(v)); }
inline __half __double2half(double v) {
  __half to;
  fk::reference::put(to, v);
  return to;
}
inline __half __float2half(float v) { return __double2half(static_cast<double>(v)); }
