// SPDX-License-Identifier: Apache-2.0
// ms_deform_attn: for each query and head, adds the four pixels around each sampling place,
// weighted by their distances (bilinear) and the place's attention weight.
#include "fk/ops/ms_deform_attn.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct DeformableAttention : Base<ms_deform_attn> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.value, max.sampling_locations);
    need.scratch = (init.head_dim + 3) * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    double* sum = scratch.take(init.head_dim);
    double* place = scratch.take(3);  // x, y, weight
    for (int64_t b = 0; b < args.out->shape[0]; ++b) {
      for (int64_t q = 0; q < args.out->shape[1]; ++q) {
        for (int64_t h = 0; h < init.num_heads; ++h) {
          std::fill_n(sum, init.head_dim, 0.0);
          for (int64_t level = 0; level < init.num_levels; ++level) {
            for (int64_t p = 0; p < init.num_points; ++p) {
              load(args.sampling_locations, offset(args.sampling_locations, b, q, h, level, p), 2,
                   place);
              load(args.attention_weights, offset(args.attention_weights, b, q, h, level, p), 1,
                   place + 2);
              sample(args, b, h, level, place, sum);
            }
          }
          store(args.out, offset(args.out, b, q) + h * init.head_dim, init.head_dim, sum);
        }
      }
    }
  }

 private:
  // Adds the pixels around one place of a level to sum[D].
  void sample(const op::forward& args, int64_t b, int64_t h, int64_t level, const double* place,
              double* sum) const {
    const int64_t high = index<int64_t>(args.spatial_shapes, 2 * level);
    const int64_t wide = index<int64_t>(args.spatial_shapes, 2 * level + 1);
    const int64_t start = index<int64_t>(args.level_start_index, level);
    const double x = place[0] * static_cast<double>(wide) - 0.5;
    const double y = place[1] * static_cast<double>(high) - 0.5;
    for (int64_t i = 0; i < 2; ++i) {
      for (int64_t j = 0; j < 2; ++j) {
        const double row = std::floor(y) + static_cast<double>(i);
        const double column = std::floor(x) + static_cast<double>(j);
        if (row < 0 || column < 0 || row >= static_cast<double>(high) ||
            column >= static_cast<double>(wide))
          continue;
        const int64_t pixel =
            start + static_cast<int64_t>(row) * wide + static_cast<int64_t>(column);
        const double share = (1 - std::fabs(y - row)) * (1 - std::fabs(x - column));
        add_scaled(args.value, offset(args.value, b, pixel, h), init.head_dim, share * place[2],
                   sum);
      }
    }
  }
};
FK_OP(ms_deform_attn, DeformableAttention);

}  // namespace
}  // namespace fk::reference
