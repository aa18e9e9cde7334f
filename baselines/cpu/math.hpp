// SPDX-License-Identifier: Apache-2.0
// exp and functions that are made of it, over vectors. Relative errors were measured on every 13th
// float against double:
//   exp 7.7e-8 on [-87, 88.7]; silu 1.8e-7; gelu 4.8e-7 above -4 and 4.0e-6 above -13;
//   gelu_tanh 4.8e-7 above -2 and 3.0e-6 above -6; tanh 3.0e-7;
//   softplus 2.2e-7
#pragma once
#include "simd.hpp"

namespace fk::cpu::FK_CPU_LEVEL {

// Saturates to 0 below -104 and to infinity above 88.73; NaN stays NaN. exp(x) = 2^n * exp(r) with
// n = round(x / ln 2) and r = x - n ln 2, by a Taylor polynomial of r.
FK_INLINE Vf exp(Vf x) {
  x = x < splat(-110.f) ? splat(-110.f) : x;
  x = x > splat(100.f) ? splat(100.f) : x;
  const Vf magic = splat(12582912.f);  // 1.5 * 2^23: adding it rounds to a whole number
  const Vf shifted = x * 1.44269504f + magic;
  const Vi n = bits_as<Vi>(shifted) - bits_as<Vi>(magic);
  const Vf whole = shifted - magic;
  // ln 2 in two parts: the product with the first is exact.
  const Vf r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
  Vf p = splat(1.f / 5040);
  p = p * r + 1.f / 720;
  p = p * r + 1.f / 120;
  p = p * r + 1.f / 24;
  p = p * r + 1.f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.f;
  p = p * r + 1.f;
  // 2^n as two factors: 2^n alone would be 0 for subnormal results.
  const Vi half = n >> 1;
  const Vf a = bits_as<Vf>((half + 127) << 23), b = bits_as<Vf>((n - half + 127) << 23);
  return p * a * b;
}

// In double, for x <= 0, with relative error 2e-16. Below -700 the result is exp(-700).
FK_INLINE Vd exp_negative(Vd x) {
  const Vd low = Vd{} - 700.0;
  x = x < low ? low : x;
  const Vd magic = Vd{} + 6755399441055744.0;  // 1.5 * 2^52
  const Vd shifted = x * 1.4426950408889634 + magic;
  const Vl n = bits_as<Vl>(shifted) - bits_as<Vl>(magic);
  const Vd whole = shifted - magic;
  const Vd r = (x - whole * 6.93147180369123816490e-01) - whole * 1.90821492927058770002e-10;
  Vd p = Vd{} + 1.0 / 6227020800;
  const double factors[] = {1.0 / 479001600,
                            1.0 / 39916800,
                            1.0 / 3628800,
                            1.0 / 362880,
                            1.0 / 40320,
                            1.0 / 5040,
                            1.0 / 720,
                            1.0 / 120,
                            1.0 / 24,
                            1.0 / 6,
                            0.5,
                            1.0,
                            1.0};
  for (const double factor : factors) p = p * r + factor;
  return p * bits_as<Vd>((n + 1023) << 52);
}

// x * Phi(x), where Phi is the normal distribution. Phi(-t) = exp(-t^2/2) * q(t) for t >= 0, which
// has no cancellation in the left tail. (1 + t) * q(t) is a polynomial of degree 10 in (t - 3) / (t
// + 3), fitted at Chebyshev nodes with error 1.4e-8.
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

FK_INLINE Vf relu(Vf x) { return x > splat(0.f) ? x : (x != x ? x : splat(0.f)); }
FK_INLINE Vf sigmoid(Vf x) { return 1.f / (1.f + exp(-x)); }

// log(1 + exp(x)) = max(x, 0) + log1p(u) with u = exp(-|x|), and log1p(u) = 2 atanh(u / (2 + u)).
FK_INLINE Vf softplus(Vf x) {
  const Vf u = exp(x < splat(0.f) ? x : -x), t = u / (u + 2.f), s = t * t;
  Vf p = splat(1.f / 15);
  p = p * s + 1.f / 13;
  p = p * s + 1.f / 11;
  p = p * s + 1.f / 9;
  p = p * s + 1.f / 7;
  p = p * s + 1.f / 5;
  p = p * s + 1.f / 3;
  const Vf tail = (t + t * s * p) * 2.f;
  return x < splat(0.f) ? tail : x + tail;
}

// Near zero a series replaces the other formula, which would lose digits there.
FK_INLINE Vf tanh(Vf x) {
  const Vf t = x < splat(0.f) ? -x : x, s = x * x;
  Vf p = splat(62.f / 2835);
  p = p * s - 17.f / 315;
  p = p * s + 2.f / 15;
  p = p * s - 1.f / 3;
  const Vf far = 1.f - 2.f / (exp(t * 2.f) + 1.f);
  return t < splat(0.25f) ? x + x * s * p : (x < splat(0.f) ? -far : (x != x ? x : far));
}

FK_INLINE Vf log_sigmoid(Vf x) { return -softplus(-x); }

// x tanh(log(1 + e)) with e = exp(x) is x n / (n + 2) with n = e (e + 2). Above 20 it is x.
FK_INLINE Vf mish(Vf x) {
  const Vf e = exp(x < splat(20.f) ? x : splat(20.f)), n = e * (e + 2.f);
  return x * (n / (n + 2.f));
}

}  // namespace fk::cpu::FK_CPU_LEVEL
