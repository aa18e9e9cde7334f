// SPDX-License-Identifier: Apache-2.0
#include "core/cases/strides.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "core/base/error.hpp"
#include "core/cases/generator_text.hpp"
#include "core/cases/shuffle.hpp"

namespace fk {

std::vector<int64_t> named_rows(const CaseField& field) {
  if (!field.values.starts_with("held(")) return {};
  std::vector<int64_t> out;
  for (const auto& row : GeneratorText::parse(field.values, field.slot->name).args)
    out.push_back(std::strtoll(row.c_str(), nullptr, 10));
  std::ranges::sort(out);
  return out;
}

Shape contents_shape(const CaseField& field, int64_t entry) {
  Shape out = field.shape_of(entry);
  if (const auto rows = named_rows(field); !rows.empty())
    out[0] = static_cast<int64_t>(rows.size());
  return out;
}

std::vector<int64_t> ids_among(const std::vector<int64_t>& rows, const Shape& shape,
                               Random random) {
  const auto all = static_cast<int64_t>(rows.size()), count = numel(shape);
  const int64_t columns = shape.size() > 1 ? shape.back() : all;
  FK_CHECK(columns <= all, "a row of ids is no longer than there are rows to choose from");
  auto out = distinct_by_row((count + columns - 1) / columns, columns, all, random);
  out.resize(static_cast<size_t>(count));
  for (int64_t& id : out) id = rows[static_cast<size_t>(id)];
  return out;
}

std::vector<HeldElements> held_elements(const CaseField& field, const Shape& shape,
                                        const Shape& strides) {
  constexpr int64_t kGapLeast = int64_t{1} << 28;  // elements; smaller gaps have memory, too
  constexpr int64_t kMore = 1024;                  // elements on either side of a row
  if (shape.size() < 2 || shape[0] < 2) return {};
  const int64_t row = reach({shape.begin() + 1, shape.end()}, {strides.begin() + 1, strides.end()});
  std::vector<int64_t> rows = named_rows(field);
  if (rows.empty() && (row == 0 || strides[0] - row < kGapLeast)) return {};
  if (rows.empty()) {
    rows.resize(static_cast<size_t>(shape[0]));
    std::iota(rows.begin(), rows.end(), int64_t{0});
  }
  std::vector<HeldElements> out;
  const int64_t all = reach(shape, strides);
  for (const int64_t i : rows) {
    const int64_t from = std::max<int64_t>(0, i * strides[0] - kMore),
                  to = std::min(all, i * strides[0] + row + kMore);
    if (!out.empty() && from <= out.back().at + out.back().count)
      out.back().count = to - out.back().at;
    else
      out.push_back({from, to - from});
  }
  return out;
}

bool has_gaps(const ResolvedCase& resolved) {
  return std::ranges::any_of(resolved.fields, [](const CaseField& f) {
    if (!f.present || f.shape.empty()) return false;
    Shape strides = contiguous_strides(f.shape);
    if (f.step > 0) strides[0] = f.step;
    return !held_elements(f, f.shape, strides).empty();
  });
}

}  // namespace fk
