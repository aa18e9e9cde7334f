// SPDX-License-Identifier: Apache-2.0
// A copy of a view in float32 in which something is changed.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "fk/cpp/floats.hpp"

namespace attack {

class Changed {
 public:
  Changed(const fk_in* from) : view_(*from), strides_(static_cast<size_t>(from->ndim)) {
    int64_t count = 1;
    for (size_t i = strides_.size(); i-- > 0; count *= from->shape[i]) strides_[i] = count;
    values_.resize(static_cast<size_t>(count));
    for (int64_t row = 0; row < count; row += columns()) {
      int64_t at = 0;
      for (size_t i = 0; i < strides_.size(); ++i)
        at += row / strides_[i] % from->shape[i] * from->strides[i];
      fk::load(from, at, columns(), values_.data() + row);
    }
    view_.data = values_.data();
    view_.strides = strides_.data();
    view_.dtype = {2, 32, 1};
    view_.nbytes = count * 4;
  }
  Changed(Changed&&) = default;  // what is pointed to stays where it is
  const fk_in* view() const { return &view_; }
  std::vector<float>& values() { return values_; }
  int64_t columns() const { return view_.shape[view_.ndim - 1]; }

 private:
  fk_in view_;
  std::vector<int64_t> strides_;
  std::vector<float> values_;
};

// A weight as whole numbers of eight bits, with a scale for every `group` of columns of a row.
// Columns are divided by their sizes first, as in AWQ.
inline Changed eight_bits(const fk_in* weight, size_t group) {
  Changed out(weight);
  std::vector<float>& v = out.values();
  const auto columns = static_cast<size_t>(out.columns());
  std::vector<float> size(columns, 1e-30f);
  for (size_t i = 0; i < v.size(); ++i) size[i % columns] += v[i] * v[i];
  for (float& s : size) s = std::sqrt(s);
  for (size_t row = 0; row < v.size(); row += columns) {
    for (size_t from = 0; from < columns; from += group) {
      const size_t to = std::min(columns, from + group);
      float most = 1e-30f;
      for (size_t c = from; c < to; ++c) most = std::max(most, std::abs(v[row + c] / size[c]));
      for (size_t c = from; c < to; ++c)
        v[row + c] = std::nearbyint(v[row + c] / size[c] / most * 127) * most / 127 * size[c];
    }
  }
  return out;
}

}  // namespace attack
