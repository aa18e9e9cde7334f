// SPDX-License-Identifier: Apache-2.0
// Compares an output with the bounds of an error model (tolerance.hpp), and describes wrong
// elements.
#pragma once
#include <string>
#include <vector>

#include "core/cases/tolerance.hpp"

namespace fk {

// The blocks of an output: pieces of 16 to 128 elements of a row, or several short rows. With a
// `plane` in the model, blocks have as many elements as a plane.
struct Blocks {
  int64_t count = 0;
  std::vector<int64_t> begin;  // count + 1
};
Blocks blocks_of(const Shape& shape, int64_t plane = 0);

// Root mean square of all finite values.
double size_of_all(const Tensor& want);

// Description of a wrong answer. If its factor or precision is wrong as a whole, no single element
// needs to be.
struct WrongElements {
  std::string limit;  // the error model in words
  int64_t count = 0, compared = 0;
  int64_t first = -1;         // row-major; -1: none, or unknown because of sampling
  double got = 0, want = 0;   // at `first`, else at the first sampled one
  std::string pattern, next;  // place and kind of the error, and the author's next step
};

struct Judgement {
  bool ok = true;
  double worst = 0;     // largest error as a share of what is allowed
  double rms = 0;       // root mean square of these shares
  double factor = 1;    // measured factor between answer and reference
  std::string text;     // not ok: place, error, and pattern of the wrong elements
  WrongElements wrong;  // not ok
};

// `got` has the output's dtype, `want` float32 or the output's dtype. `noise`: absolute, per block
// of blocks_of(want.shape); empty: unknown. `before`: initial content of an inout field; rightly
// unchanged values say nothing about precision. `floors`: per block, always allowed in addition
// to the model's floor. `moves`: noise of each element, if the model is `alone`. Without `words`
// the result has the number of wrong elements but no pattern, which is quicker.
Judgement judge(const Tensor& got, const Tensor& want, const ErrorModel& model,
                const std::vector<double>& noise = {}, const Tensor& before = {},
                const std::vector<double>& floors = {}, const std::vector<double>& moves = {},
                bool words = true);

}  // namespace fk
