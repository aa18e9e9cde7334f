// SPDX-License-Identifier: Apache-2.0
// gaussian_radii: extents, rounded up.
#include "fk/ops/gaussian_radii.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct GaussianRadii : Base<gaussian_radii> {
  using Base::Base;
  static void supports(const op::init&, const op::weights&, const op::forward&, fk_need&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    for (int64_t i = 0; i < fk_numel(args.extents); ++i)
      data<int32_t>(args.radii)[i] =
          static_cast<int32_t>(std::ceil(value(data<float>(args.extents)[i])));
  }
};
FK_OP(gaussian_radii, GaussianRadii);

}  // namespace
}  // namespace fk::reference
