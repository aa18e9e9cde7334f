// SPDX-License-Identifier: Apache-2.0
// bfloat16 for the emulation, as the reference has it.
#pragma once
#include "element.hpp"

using __nv_bfloat16 = fk::reference::Bf16;
inline float __bfloat162float(__nv_bfloat16 v) {
  return static_cast<float>(fk::reference::value(v));
}
inline __nv_bfloat16 __double2bfloat16(double v) {
  __nv_bfloat16 to;
  fk::reference::put(to, v);
  return to;
}
inline __nv_bfloat16 __float2bfloat16(float v) { return __double2bfloat16(static_cast<double>(v)); }
