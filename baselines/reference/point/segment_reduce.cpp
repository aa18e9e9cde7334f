// SPDX-License-Identifier: Apache-2.0
// segment_reduce: segment by segment.
#include "fk/ops/segment_reduce.h"

#include "op.hpp"

namespace fk::reference {
namespace {

struct SegmentReduce : Base<segment_reduce> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.x, max.out);
    need.scratch = 2 * init.size * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    constexpr int64_t kMean = 1;
    Scratch scratch(ctx);
    double *sum = scratch.take(init.size), *row = scratch.take(init.size);
    const auto* offsets = data<int32_t>(args.offsets);
    for (int64_t b = 0; b < args.out->shape[0]; ++b) {
      std::fill_n(sum, init.size, 0.0);
      for (int64_t j = offsets[b]; j < offsets[b + 1]; ++j) {
        load(args.x, offset(args.x, index<int32_t>(args.rows, j)), init.size, row);
        for (int64_t c = 0; c < init.size; ++c) {
          if (init.reduce == kMean)
            sum[c] += row[c] / static_cast<double>(offsets[b + 1] - offsets[b]);
          else
            sum[c] = j == offsets[b] || !(row[c] <= sum[c]) ? row[c] : sum[c];
        }
      }
      store(args.out, offset(args.out, b), init.size, sum);
    }
  }
};
FK_OP(segment_reduce, SegmentReduce);

}  // namespace
}  // namespace fk::reference
