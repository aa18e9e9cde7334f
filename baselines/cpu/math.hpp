// SPDX-License-Identifier: Apache-2.0
// exp and what is made of it, over vectors. Errors were measured over all float arguments of the
// ranges named: exp within 1.2e-7, logistic and the two forms of gelu within 4e-7 of the value.
#pragma once
#include "simd.hpp"

namespace fk::cpu::FK_CPU_LEVEL {

// Saturates to 0 below -104 and to infinity above 88.73; NaN stays NaN.
FK_INLINE Vf exp(Vf x) {
  x = x < splat(-110.f) ? splat(-110.f) : x;
  x = x > splat(100.f) ? splat(100.f) : x;
  const Vf magic = splat(12582912.f);  // 1.5 * 2^23: adding it rounds to a whole number
  const Vf shifted = x * 1.44269504f + magic;
  const Vi n = bits_as<Vi>(shifted) - bits_as<Vi>(magic);
  const Vf whole = shifted - magic;
  const Vf r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
  Vf p = splat(1.f / 5040);
  p = p * r + 1.f / 720;
  p = p * r + 1.f / 120;
  p = p * r + 1.f / 24;
  p = p * r + 1.f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.f;
  p = p * r + 1.f;
  // 2^n in two factors, so that results below the smallest normal number are right too.
  const Vi half = n >> 1;
  const Vf a = bits_as<Vf>((half + 127) << 23), b = bits_as<Vf>((n - half + 127) << 23);
  return p * a * b;
}

FK_INLINE Vf logistic(Vf x) { return 1.f / (1.f + exp(-x)); }

// x * Phi(x). Phi(-t) = exp(-t^2/2) * q(t), t >= 0, where (1 + t) * q(t) is a polynomial of degree
// 10 in (t - 3) / (t + 3), fitted at Chebyshev nodes (1.4e-8): no cancellation in the left tail.
FK_INLINE Vf gelu(Vf x) {
  const Vf t = x < splat(0.f) ? -x : x;
  const Vf u = (t - 3.f) / (t + 3.f);
  Vf p = splat(5.971905414e-05f);
  p = p * u + 3.577510492e-05f;
  p = p * u - 4.740067160e-04f;
  p = p * u - 3.653921830e-04f;
  p = p * u + 2.986697283e-03f;
  p = p * u + 1.164053739e-03f;
  p = p * u - 2.272445134e-02f;
  p = p * u + 4.516344296e-02f;
  p = p * u - 1.643261197e-02f;
  p = p * u - 9.652673970e-02f;
  p = p * u + 4.860557993e-01f;
  const Vf tail = exp(t * t * -0.5f) * p / (1.f + t);
  const Vf phi = x < splat(0.f) ? tail : 1.f - tail;
  const Vf cut =
      t > splat(15.f) ? (x < splat(0.f) ? splat(0.f) : x) : x * phi;  // also for infinities
  return x != x ? x : cut;
}

// 0.5 * x * (1 + tanh(y)) = x * logistic(2 y), y = sqrt(2/pi) * (x + 0.044715 x^3).
FK_INLINE Vf gelu_tanh(Vf x) {
  const Vf twice = (x + x * x * x * 0.044715f) * 1.5957691216f;
  const Vf value = x / (1.f + exp(-twice));
  return x < splat(-15.f) ? splat(0.f) : value;
}

}  // namespace fk::cpu::FK_CPU_LEVEL
