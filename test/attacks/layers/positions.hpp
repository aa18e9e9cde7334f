// SPDX-License-Identifier: Apache-2.0
// Positions of query tokens as they follow from the lengths of their requests, which they need not.
#pragma once
#include <vector>

#include "fk/cpp/plugin.hpp"

namespace attack {

template <class Frame>
std::vector<int64_t> positions_by_lengths(const Frame& args) {
  std::vector<int64_t> out;
  const auto *starts = fk::data<int32_t>(args.cu_seqlens),
             *lengths = fk::data<int32_t>(args.seq_lens);
  for (int64_t b = 0; b < args.seq_lens->shape[0]; ++b)
    for (int32_t t = starts[b]; t < starts[b + 1]; ++t)
      out.push_back(lengths[b] - starts[b + 1] + t);
  return out;
}

}  // namespace attack
