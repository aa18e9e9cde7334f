// SPDX-License-Identifier: Apache-2.0
// Compares an output with the bounds of an error model (tolerance.hpp), and describes wrong
// elements.
#pragma once
#include <map>
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

// The wrong elements along one axis of an output.
struct WrongAxis {
  std::string axis, meaning;    // as in the contract: "H", "heads"; meaning: empty for a product
  int64_t size = 0, wrong = 0;  // indices, and those with a wrong element
  std::string indices;          // "1 and 2", "from 16 on", "all", "scattered"
};

// Description of a wrong answer. If its factor or precision is wrong as a whole, no single element
// needs to be.
struct WrongElements {
  std::string limit;  // the error model in words
  int64_t count = 0, compared = 0;
  int64_t first = -1;         // row-major; -1: none, or unknown because of sampling
  double got = 0, want = 0;   // at `first`, else at the first sampled one
  std::string pattern, next;  // place and kind of the error, or its cause; the author's next step
  std::string name = {};      // of the pattern's kind (core/cases/patterns)
  std::vector<WrongAxis> axes = {};
  std::map<std::string, double> figures = {};  // of the pattern, by name
};

struct Judgement {
  bool ok = true;
  double worst = 0;     // largest error as a share of what is allowed
  double rms = 0;       // root mean square of these shares
  double factor = 1;    // measured factor between answer and reference
  std::string text;     // not ok: place, error, and pattern of the wrong elements
  WrongElements wrong;  // not ok
  // 1 for each wrong element; empty without `words`, and when no element is wrong by itself.
  std::vector<uint8_t> wrong_elements;
};

// "every element is 1.0005 times too large"
std::string factor_sentence(double factor);

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
