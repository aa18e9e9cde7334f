// SPDX-License-Identifier: Apache-2.0
// Products with weights in mxfp4 (OCP Microscaling Formats, version 1.0). A byte has two values in
// e2m1, a float of 4 bits. Every 32 values share a power of two in e8m0, an exponent of 8 bits.
#pragma once
#include <cmath>
#include <limits>

#include "op.hpp"

namespace fk::reference {

// 2^(bits - 127); 255 is NaN.
inline double e8m0(uint8_t bits) {
  return bits == 255 ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, bits - 127);
}

// The values of the 16 codes of e2m1.
inline constexpr double kE2m1[] = {0,    0.5,  1,  1.5,  2,  3,  4,  6,
                                   -0.0, -0.5, -1, -1.5, -2, -3, -4, -6};

// out[rows] = matrix `expert` of weight [E,N,K/2] with scale [E,N,K/32], times x[columns], plus
// bias.
inline void mxfp4_matrix_vector(const fk_in* weight, const fk_in* scale, fk_opt_in bias,
                                int64_t expert, int64_t rows, int64_t columns, const double* x,
                                double* out) {
  for (int64_t n = 0; n < rows; ++n) {
    const uint8_t* packed = data<uint8_t>(weight) + offset(weight, expert, n);
    const uint8_t* powers = data<uint8_t>(scale) + offset(scale, expert, n);
    double sum = 0;
    for (int64_t k = 0; k < columns; ++k) {
      const int code = k % 2 ? packed[k / 2] >> 4 : packed[k / 2] & 15;
      sum += kE2m1[code] * e8m0(powers[k / 32]) * x[k];
    }
    out[n] = sum;
  }
  if (bias.or_null) add_scaled(bias.or_null, offset(bias.or_null, expert), rows, 1, out);
}

}  // namespace fk::reference
