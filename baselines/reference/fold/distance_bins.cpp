// SPDX-License-Identifier: Apache-2.0
// distance_bins: squares of distances between squares of edges.
#include "fk/ops/distance_bins.h"

#include "op.hpp"

namespace fk::reference {
namespace {

struct DistanceBins : Base<distance_bins> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.out);
    need.scratch = init.num_bins * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t tokens = args.rows->shape[0], bins = init.num_bins;
    double* row = Scratch(ctx).take(bins);
    const auto* rows = data<int32_t>(args.rows);
    for (int64_t i = 0; i < tokens; ++i) {
      for (int64_t j = 0; j < tokens; ++j) {
        double squares = 0;
        for (int c = 0; c < 3; ++c) {
          const double d = value(data<float>(args.positions)[3 * rows[i] + c]) -
                           value(data<float>(args.positions)[3 * rows[j] + c]);
          squares += d * d;
        }
        for (int64_t b = 0; b < bins; ++b)
          row[b] =
              squares > square_of_edge(b) && (b + 1 == bins || squares < square_of_edge(b + 1));
        store(args.out, offset(args.out, i, j), bins, row);
      }
    }
  }

 private:
  double square_of_edge(int64_t i) const {
    const double edge = init.min_bin + (init.max_bin - init.min_bin) * static_cast<double>(i) /
                                           static_cast<double>(init.num_bins - 1);
    return edge * edge;
  }
};
FK_OP(distance_bins, DistanceBins);

}  // namespace
}  // namespace fk::reference
