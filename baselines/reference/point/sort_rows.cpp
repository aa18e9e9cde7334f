// SPDX-License-Identifier: Apache-2.0
// sort_rows: by key, then by row.
#include "fk/ops/sort_rows.h"

#include "op.hpp"

namespace fk::reference {
namespace {

struct SortRows : Base<sort_rows> {
  using Base::Base;
  static void supports(const op::init&, const op::weights&, const op::forward&, fk_need&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t count = args.keys->shape[0];
    const auto* keys = data<int64_t>(args.keys);
    auto* rows = data<int32_t>(args.rows);
    for (int64_t i = 0; i < count; ++i) rows[i] = static_cast<int32_t>(i);
    std::sort(rows, rows + count,
              [&](int32_t a, int32_t b) { return keys[a] != keys[b] ? keys[a] < keys[b] : a < b; });
    for (int64_t i = 0; i < count; ++i)
      data<int32_t>(args.ranks)[rows[i]] = static_cast<int32_t>(i);
  }
};
FK_OP(sort_rows, SortRows);

}  // namespace
}  // namespace fk::reference
