// SPDX-License-Identifier: Apache-2.0
// group_norm: mean and variance of each group of channels over all pixels of an image.
#include "fk/ops/group_norm.h"
#include "image.hpp"

namespace fk::reference {
namespace {

struct GroupNorm : Base<group_norm> {
  using Base::Base;
  struct Rows {
    GroupAffine affine;
    PixelMap map;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : affine(s, i.num_channels, i.num_groups, i.eps),
          map{args.x->shape[1], args.x->shape[2], i.num_channels,
              s.take(args.x->shape[1] * args.x->shape[2] * i.num_channels)} {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(weights.weight.or_null, weights.bias.or_null, max.x, max.out);
    if (init.num_channels % init.num_groups)
      throw unsupported{"num_groups: does not divide the channels"};
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    Rows rows(scratch, init, args);
    rows.affine.read(weights.weight.or_null, weights.bias.or_null);
    const int64_t each = rows.map.pixels() * init.num_channels;
    for (int64_t b = 0; b < args.x->shape[0]; ++b) {
      load(args.x, offset(args.x, b), each, rows.map.at);
      rows.affine.apply(rows.map, static_cast<PixelActivation>(init.activation));
      store(args.out, offset(args.out, b), each, rows.map.at);
    }
  }
};
FK_OP(group_norm, GroupNorm);

}  // namespace
}  // namespace fk::reference
