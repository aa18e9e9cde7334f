// SPDX-License-Identifier: Apache-2.0
// topk_rows: sorts the places of a row by their elements.
#include <algorithm>
#include <numeric>

#include "fk/ops/topk_rows.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct TopkRows : Base<topk_rows> {
  // Places are integers in the room of doubles.
  static_assert(sizeof(int64_t) == sizeof(double));
  struct Rows {
    double *row, *places, *best;
    Rows(Scratch& s, const op::init& i)
        : row(s.take(i.size)), places(s.take(i.size)), best(s.take(i.top_k)) {}
  };
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.x, max.values);
    if (init.top_k > init.size) throw unsupported{"top_k: at most size"};
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init);
    auto* places = reinterpret_cast<int64_t*>(rows.places);
    for (int64_t t = 0; t < args.x->shape[0]; ++t) {
      load(args.x, offset(args.x, t), init.size, rows.row);
      std::iota(places, places + init.size, int64_t{0});
      std::sort(places, places + init.size, [&](int64_t a, int64_t b) {
        return rows.row[a] > rows.row[b] || (rows.row[a] == rows.row[b] && a < b);
      });
      for (int64_t k = 0; k < init.top_k; ++k) {
        rows.best[k] = rows.row[places[k]];
        const int64_t at = t * init.top_k + k;
        data<int32_t>(args.ids)[at] = static_cast<int32_t>(places[k]);
        data<int32_t>(args.rows)[at] = static_cast<int32_t>(t * init.size + places[k]);
      }
      store(args.values, offset(args.values, t), init.top_k, rows.best);
    }
  }
};
FK_OP(topk_rows, TopkRows);

}  // namespace
}  // namespace fk::reference
