// SPDX-License-Identifier: Apache-2.0
// Wrong from the index on that 15 or 16 bits cannot hold.
#include <fmt/format.h>

#include <algorithm>

#include "core/cases/patterns/pattern.hpp"

namespace fk {
namespace {

constexpr PatternKind kRangeKinds[] = {
    {"index_overflow", surety::kShape,
     "tokens from 65536 on are wrong: their index does not fit in 16 bits"}};

constexpr int kIndexBits[] = {15, 16};

// True if nearly all elements from index `first` of the axis on are wrong, and no others. Elements
// of a wrapped index may be wrong too, because the later ones were written there.
bool wrong_from(const WrongAnswer& answer, int64_t inner, int64_t size, int64_t first) {
  int64_t beyond = 0, below = 0;
  for (int64_t i = 0; i < answer.size(); ++i) {
    const int64_t at = i / inner % size;
    if (!answer.wrong[static_cast<size_t>(i)] || at < size - first) continue;
    (at >= first ? beyond : below) += 1;
  }
  const int64_t all = answer.size() / size * (size - first);
  return below * 100 <= beyond && beyond * 10 >= all * 8;
}

std::optional<Explanation> index_found(const std::string& what, int bits) {
  return Explanation{
      "index_overflow",
      surety::kShape + 0.05,
      fmt::format("{} from {} on are wrong: their index does not fit in {} bits", what,
                  int64_t{1} << bits, bits),
      "Hold indices in 32 bits, and products of indices in 64. On a GPU, the second and third "
      "dimension of a grid end at 65535.",
      {{"first", static_cast<double>(int64_t{1} << bits)}}};
}

std::optional<Explanation> look_for_index_range(const WrongAnswer& answer) {
  const auto letters = answer.letters();
  if (letters.empty() || answer.count == 0) return std::nullopt;
  for (const int bits : kIndexBits) {
    const int64_t first = int64_t{1} << bits;
    int64_t inner = answer.size();
    for (size_t axis = 0; axis < letters.size(); ++axis) {
      const int64_t size = answer.want.shape[axis];
      inner /= size;
      if (size > first && size < 2 * first && wrong_from(answer, inner, size, first)) {
        const std::string meaning = meaning_of_axis(*answer.resolved.contract, letters[axis]);
        return index_found(meaning.empty() ? "indices of " + letters[axis] : meaning, bits);
      }
    }
    if (answer.size() > first && answer.size() < 2 * first &&
        wrong_from(answer, 1, answer.size(), first))
      return index_found("elements", bits);
  }
  return std::nullopt;
}

}  // namespace

FK_PATTERN(index_range, kRangeKinds, look_for_index_range);

}  // namespace fk
