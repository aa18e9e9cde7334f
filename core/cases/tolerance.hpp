// SPDX-License-Identifier: Apache-2.0
// How far an output may be from the reference: a model of rounding, not a table of numbers, and
// without an allowed share of wrong elements. docs/numerics.md explains the terms.
//
// The reference computes in double on the very inputs that the provider got, with outputs in
// float32, so what is left is the provider's own rounding:
//   output      the result is rounded once to its dtype, and low-precision code commonly rounds one
//               intermediate too (x * scale before * weight): 2 eps(out) |want|, relative
//   sums        a float32 sum of n terms, added one after the other, has an error that grows like a
//               random walk: about 0.2 eps sqrt(n) of the result's size for terms of both signs and
//               0.17 eps sqrt(n) for positive ones (standard deviation); a maximum over millions of
//               elements is six of those. Allowed: 2 eps(f32) sqrt(n) |want| for positive terms and
//               4 eps(f32) sqrt(n) spread for those of both signs
//   functions   exp, erf, rsqrt in float32: a few eps, and exp of a score s has eps |s|:
//               16 eps(f32) for elementwise code, 64 for softmax and logarithm
//   inside      values that are stored between steps in the working dtype (probabilities of an
//               attention, activations inside an L2 or L3 op) are each off by at most eps/2, at
//               random, so the result is off by a fixed share of its spread, independent of n:
//               2 eps(working) spread for logarithms of sums, 3 for softmax, where of sparse
//               values two large ones may cancel, 4 for L2 and for sums over ranks, which libraries
//               round at every rank, 8 for L3
//   logarithm   of a sum: what the sum is off by, relative to itself, is absolute in its logarithm.
//               1 + 1e-11 is 1 in float32, and its logarithm 0: (2 + sqrt(n)) eps(f32), absolute
//   8 bits      tensor cores of Hopper shift 32 products of f8e4m3 and the sum so far to the
//   largest
//               of them and cut off what is beyond 14 bits (DeepSeek-V3 Technical Report,
//               arXiv:2412.19437, 3.3.2). Kernels in use add such sums up in float32 after every
//               128 terms; then the error is 0.00013 spread for terms of both signs (standard
//               deviation; 0.0002 for heavy tails) and 0.0006 |want| for positive ones, all of it
//               towards zero. Without that addition it grows with the length, and is refused in
//               float32. Where an op of level 1 rounds its inputs to f8e4m3 itself, in blocks of
//               multiples of 32 terms: 16 * 2^-13 of |want| and of the spread
//   noise       what the reference's own answer moves by when its inputs are moved by rounding
//               (comparison.hpp), where it is given: cancellation, large scores
// The sum is cut at a hard maximum, so that no length can excuse a wrong value. Spread is the
// standard deviation of the wanted values in the element's own block, a piece of a row: near zero
// an error relative to the element says nothing, and a tile of small values is not excused by
// large values elsewhere.
//
// A maximum has to leave room for the one worst rounding among millions. So that this room is not
// used everywhere, the root mean square of error / allowed is limited too, and a systematic factor.
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
                           // excess: that of noise over usual * probe * size
  double floor = 0;        // negligible()
  double most = HUGE_VAL;  // largest(): beyond it an infinity is right
  double cancelled = 0;    // what is added up in float32 and cancels in a coarser dtype may leave
                           // that share of the whole output's size
  double small = 1e-3;     // a block is no smaller than that share of the whole output's size: what
                           // cancels to nothing there still has the noise of its terms
  double rms = 0.35;       // limit of the root mean square of error / allowed
  double few = 2;          // by so much over the root of their number it is wider for few elements
  double excess_rms = 16;  // times the excess is what is allowed there
  double factor = 0;       // limit of |factor - 1|, for many elements; 0: not looked at
  double shared = 0;       // by so much over the root of their number it is wider for few blocks
  double ordinary = 0;     // what is smaller is rounded coarsely and says nothing about a factor
  int64_t plane = 0;       // elements of a block; 0: as of any shape
  double probe = 0;        // probe_size()
  double usual = 2;        // by how many of them an answer moves as its inputs do
  double usual_rms = 0;    // of all of a layer's inputs and weights together, where that is more
  bool alone = false;      // of sums of so few terms one may cancel beside others that do not: the
                           // noise of an element counts where it is more than its block's
  bool fine = false;       // a float32 output beside 16 bits, whose values those need not hold
  double coarse = 0;  // by how much an element is off where intermediates are rounded to f8e4m3
  std::string text;   // "0.0156 |want| + 3.24e-05 spread, at most 0.125 of either"
};

// By how much of itself an input is moved to measure noise: 4 eps(f32), eps(working) above L1.
double probe_size(const ResolvedCase& resolved);

// Whether an init value makes the op round its inputs to f8e4m3, as its one right answer.
bool rounds_inputs(const ResolvedCase& resolved);

// Numbers that may be flushed to zero or come from exp() of what float32 cannot hold; of float16
// and eight bits, whose small numbers are ordinary, the smallest alone.
double negligible(DType dtype);

// The coarsest float type of the forward tensors: what intermediates are stored in.
DType working_dtype(const ResolvedCase& resolved);

ErrorModel error_model(const ResolvedCase& resolved, const CaseField& output);

}  // namespace fk
