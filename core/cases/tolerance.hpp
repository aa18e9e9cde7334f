// SPDX-License-Identifier: Apache-2.0
// Allowed distance of an output from the reference: a model of rounding, not a table, and without
// an allowed share of wrong elements. docs/numerics.md explains the terms.
//
// The reference computes in double on the provider's inputs, with outputs in float32. The remaining
// difference is the provider's own rounding:
//   output      The result is rounded once to its dtype. Low-precision code commonly rounds one
//               intermediate too (x * scale before * weight): 2 eps(out) |want|, relative.
//   sums        A sequential float32 sum of n terms has an error that grows like a random walk:
//               about 0.2 eps sqrt(n) of the result's size for terms of both signs, and
//               0.17 eps sqrt(n) for positive ones (standard deviation). A maximum over millions
//               of elements is six times as large. Allowed: 2 eps(f32) sqrt(n) |want| for
//               positive terms, 4 eps(f32) sqrt(n) spread for terms of both signs.
//   functions   exp, erf and rsqrt in float32: a few eps; exp of a score s has eps |s|.
//               Allowed: 16 eps(f32) for elementwise code, 64 for softmax and logarithm.
//   inside      Values stored between steps in the working dtype (probabilities of an attention,
//               activations inside an L2 or L3 op) are each off by at most eps/2, at random. The
//               result is off by a fixed share of its spread, independently of n. Allowed:
//               2 eps(working) spread for logarithms of sums; 3 for softmax, where two large
//               values may cancel among sparse ones; 4 for L2 and for sums over ranks, which
//               libraries round at every rank; 8 for L3.
//   logarithm   The logarithm of a sum turns the sum's relative error into an absolute one.
//               1 + 1e-11 is 1 in float32, and its logarithm 0: (2 + sqrt(n)) eps(f32), absolute.
//   8 bits      Hopper's tensor cores align 32 products of f8e4m3 and the sum so far to the largest
//               of them, and cut off bits beyond 14 (DeepSeek-V3 Technical Report,
//               arXiv:2412.19437, 3.3.2). Kernels in use add such sums in float32 after every 128
//               terms. The error is then 0.00013 spread for terms of both signs (standard
//               deviation; 0.0002 for heavy tails), and 0.0006 |want| for positive ones, always
//               towards zero. Without this addition it grows with the length, and is refused in
//               float32. If an L1 op itself rounds its inputs to f8e4m3, in blocks of multiples of
//               32 terms: 16 * 2^-13 of |want| and of the spread.
//   noise       Movement of the reference's answer when rounding moves its inputs
//               (comparison.hpp), if given: cancellation, large scores.
// A hard maximum limits the sum of these terms, so that no length can excuse a wrong value. Spread
// is the standard deviation of the wanted values in the element's own block, a piece of a row. Near
// zero a relative error of an element is meaningless, and large values elsewhere must not excuse a
// tile of small values.
//
// A maximum has to leave room for the worst rounding among millions. So that no kernel uses this
// room everywhere, the root mean square of error / allowed is limited too, and so is a systematic
// factor.
#pragma once
#include <cmath>
#include <string>
#include <vector>

#include "core/cases/inputs.hpp"

namespace fk {

struct ErrorModel {
  bool exact = false;      // equal after rounding the wanted value to the output's dtype
  double of_value = 0;     // allowed = min(of_value * |want| + of_spread * spread + 16 * excess,
  double of_spread = 0;    //               hard * max(|want|, size)) + floor + cancelled
  double hard = 0;         // size: root mean square of the block, at least its spread
                           // excess: noise above usual * probe * size
  double floor = 0;        // negligible()
  double most = HUGE_VAL;  // largest(): infinity is right beyond it
  double cancelled = 0;    // as a share of the whole output's size: rest of a float32
                           // sum that cancels in a coarser dtype
  double small = 1e-3;     // least size of a block, as a share of the whole output's:
                           // cancelled values keep the noise of their terms
  double rms = 0.35;       // limit of the root mean square of error / allowed
  double few = 2;          // limit: rms * (1 + few / sqrt(elements)), for few elements
  double excess_rms = 16;  // this multiple of the excess is allowed
  double factor = 0;       // limit of |factor - 1|, for many elements; 0: unlimited
  double shared = 0;       // limit: factor + shared / sqrt(blocks), for few blocks
  double ordinary = 0;     // smaller values are rounded coarsely and say nothing of a factor
  int64_t plane = 0;       // elements of a block; 0: from the shape
  double probe = 0;        // probe_size()
  double usual = 2;        // normal movement of an answer, as a multiple of its inputs'
  double usual_rms = 0;    // the same for all inputs and weights of a layer, if larger
  bool alone = false;      // sums of few terms, where single sums may cancel: an element's
                           // own noise counts if it exceeds its block's
  bool fine = false;  // a float32 output of 16-bit inputs, whose dtype need not hold its values
  double coarse = 0;  // error of an element if intermediates are rounded to f8e4m3
  std::string text;   // "0.0156 |want| + 3.24e-05 spread, at most 0.125 of either"
};

// Share by which an input is moved to measure noise: 4 eps(f32), eps(working) above L1.
double probe_size(const ResolvedCase& resolved);

// True if an init value requires the op to round its inputs to f8e4m3.
bool rounds_inputs(const ResolvedCase& resolved);

// Magnitude that may be flushed to zero, or that comes from exp() below float32's range. For
// float16 and eight bits, whose small numbers are ordinary, only the smallest number.
double negligible(DType dtype);

// The coarsest float type of the forward tensors: the type of stored intermediates. Codes of eight
// bits do not count.
DType working_dtype(const ResolvedCase& resolved);

ErrorModel error_model(const ResolvedCase& resolved, const CaseField& output);

}  // namespace fk
