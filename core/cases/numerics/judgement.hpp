// SPDX-License-Identifier: Apache-2.0
// Whether an output is what an error model allows (tolerance.hpp), and where it is not.
#pragma once
#include <string>
#include <vector>

#include "core/cases/tolerance.hpp"

namespace fk {

// How an output falls into blocks: pieces of a row of 16 to 128 elements, or several short rows;
// with a `plane` of the model into as many elements each.
struct Blocks {
  int64_t count = 0;
  std::vector<int64_t> begin;  // count + 1
};
Blocks blocks_of(const Shape& shape, int64_t plane = 0);

// Root mean square of all that is finite.
double size_of_all(const Tensor& want);

// Of an answer that is wrong. Where it is wrong as a whole (its factor, its precision) no element
// needs to be.
struct WrongElements {
  std::string limit;  // the error model in words
  int64_t count = 0, compared = 0;
  int64_t first = -1;         // row-major; -1: none, or not known where only a sample was compared
  double got = 0, want = 0;   // there, the first of the sample otherwise
  std::string pattern, next;  // in words: where and how, and what to look at for that
};

struct Judgement {
  bool ok = true;
  double worst = 0;     // largest error as a share of what is allowed
  double rms = 0;       // root mean square of these shares
  double factor = 1;    // by which the answer is the reference's, as far as that can be told
  std::string text;     // when not ok: where, how far, and the pattern of the wrong elements
  WrongElements wrong;  // when not ok
};

// `got` has the output's dtype, `want` float32 or the output's dtype. `noise`: per block of
// blocks_of(want.shape), absolute; empty: none is known. `before`: what an inout field held; what
// kept its value as it should says nothing about precision. `floors`: per block, what is always
// allowed there beside the model's own floor. `moves`: per element, what it moves by alone, where
// the model is `alone`. Without `words` it is not told where and how an answer is wrong, but how
// many elements are: that is quicker, and enough for who asks whether.
Judgement judge(const Tensor& got, const Tensor& want, const ErrorModel& model,
                const std::vector<double>& noise = {}, const Tensor& before = {},
                const std::vector<double>& floors = {}, const std::vector<double>& moves = {},
                bool words = true);

}  // namespace fk
