// SPDX-License-Identifier: Apache-2.0
// Blocks of an answer beside references whose inputs were moved by rounding.
#pragma once
#include <utility>
#include <vector>

#include "core/cases/numerics/judgement.hpp"

namespace fk {

// What is known of a block from the moved references.
struct MovedBlock {
  int64_t begin = 0, end = 0;
  double size = 0, noise = 0;
  bool kept = false;    // of an inout field, as it was before
  bool open = false;    // it jumps
  double nearest = -1;  // of an open one: how far the answer is from the nearest reference
};

// A block's size is at least `least`.
std::vector<MovedBlock> blocks_with(const std::vector<double>& want, const Blocks& blocks,
                                    const Tensor& before, double least);

// By how much it moves: root mean square and largest.
std::pair<double, double> moved_by(const MovedBlock& block, const std::vector<double>& want,
                                   const std::vector<double>& other);

// The largest difference of any element in [begin, end); infinite where one is not a number.
double distance(const Tensor& got, const std::vector<double>& want, int64_t begin, int64_t end);

// Moves the block of `theirs` towards `other` to where it is nearest to the answer. After several
// it is near the answer wherever this lies between them.
void mix_in(const Tensor& got, const std::vector<double>& other, const MovedBlock& block,
            Tensor& theirs);

// How many elements are off by next to nothing in blocks that no move has moved: terms that cancel
// may be moved alike, which few numbers of float32 are near enough for.
int64_t off_by_nothing(const Tensor& got, const std::vector<double>& want,
                       const std::vector<MovedBlock>& blocks, double hard);

}  // namespace fk
