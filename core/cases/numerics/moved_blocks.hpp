// SPDX-License-Identifier: Apache-2.0
// Compares blocks of an answer with references whose inputs were moved by rounding.
#pragma once
#include <utility>
#include <vector>

#include "core/cases/numerics/judgement.hpp"

namespace fk {

// Facts about a block, from the moved references.
struct MovedBlock {
  int64_t begin = 0, end = 0;
  double size = 0, noise = 0;
  bool kept = false;    // an inout field's block that stayed unchanged
  bool open = false;    // it jumps
  double nearest = -1;  // of an open block: distance to the nearest reference
};

// The blocks of `want`, each with a size of at least `least`.
std::vector<MovedBlock> blocks_with(const std::vector<double>& want, const Blocks& blocks,
                                    const Tensor& before, double least);

// Movement of a block: root mean square and maximum.
std::pair<double, double> moved_by(const MovedBlock& block, const std::vector<double>& want,
                                   const std::vector<double>& other);

// The largest difference of elements in [begin, end); infinite for a NaN.
double distance(const Tensor& got, const std::vector<double>& want, int64_t begin, int64_t end);

// Moves the block of `theirs` towards `other`, to the point nearest to the answer. After several
// calls it is near any answer that lies between the references.
void mix_in(const Tensor& got, const std::vector<double>& other, const MovedBlock& block,
            Tensor& theirs);

// Number of elements with tiny errors in blocks that no move has moved. Terms that cancel may have
// moved alike, because few float32 numbers are near enough.
int64_t off_by_nothing(const Tensor& got, const std::vector<double>& want,
                       const std::vector<MovedBlock>& blocks, double hard);

}  // namespace fk
