// SPDX-License-Identifier: Apache-2.0
#include "core/cases/numerics/moved_blocks.hpp"

#include <algorithm>
#include <cmath>

namespace fk {

std::vector<MovedBlock> blocks_with(const std::vector<double>& want, const Blocks& blocks,
                                    const Tensor& before, double least) {
  std::vector<MovedBlock> out;
  for (size_t b = 0; b < static_cast<size_t>(blocks.count); ++b) {
    MovedBlock block;
    block.begin = blocks.begin[b], block.end = blocks.begin[b + 1];
    block.kept = before.numel() > 0;
    for (int64_t i = block.begin; i < block.end; ++i) {
      const double w = want[static_cast<size_t>(i)];
      if (std::isfinite(w)) block.size += w * w;
      block.kept = block.kept && w == before.at(i);
    }
    block.size =
        std::max(least, std::sqrt(block.size / static_cast<double>(block.end - block.begin)));
    out.push_back(block);
  }
  return out;
}

std::pair<double, double> moved_by(const MovedBlock& block, const std::vector<double>& want,
                                   const std::vector<double>& other) {
  double squares = 0, most = 0;
  for (auto i = static_cast<size_t>(block.begin); i < static_cast<size_t>(block.end); ++i) {
    const double by = std::abs(other[i] - want[i]);
    if (!std::isfinite(by)) continue;
    squares += by * by;
    most = std::max(most, by);
  }
  return {std::sqrt(squares / static_cast<double>(block.end - block.begin)), most};
}

double distance(const Tensor& got, const std::vector<double>& want, int64_t begin, int64_t end) {
  double most = 0;
  for (int64_t i = begin; i < end; ++i) {
    const double by = std::abs(got.at(i) - want[static_cast<size_t>(i)]);
    most = std::isnan(by) ? HUGE_VAL : std::max(most, by);
  }
  return most;
}

void mix_in(const Tensor& got, const std::vector<double>& other, const MovedBlock& block,
            Tensor& theirs) {
  double along = 0, length = 0;
  for (int64_t i = block.begin; i < block.end; ++i) {
    const double step = other[static_cast<size_t>(i)] - theirs.at(i);
    along += step * (got.at(i) - theirs.at(i));
    length += step * step;
  }
  const double wanted = along / length;
  if (!(wanted > 0)) return;  // also if one of them is not finite
  const double share = std::min(1.0, wanted);
  for (int64_t i = block.begin; i < block.end; ++i)
    theirs.set(i, theirs.at(i) + share * (other[static_cast<size_t>(i)] - theirs.at(i)));
}

int64_t off_by_nothing(const Tensor& got, const std::vector<double>& want,
                       const std::vector<MovedBlock>& blocks, double hard) {
  int64_t out = 0;
  for (const MovedBlock& b : blocks)
    for (int64_t i = b.begin; i < b.end && b.noise == 0 && !b.kept; ++i) {
      const double by = std::abs(got.at(i) - want[static_cast<size_t>(i)]);
      out += by > 0 && by <= hard * b.size;
    }
  return out;
}

}  // namespace fk
