// SPDX-License-Identifier: Apache-2.0
// spherical_harmonics: seen_colour of splat.hpp, point by point.
#include "fk/ops/spherical_harmonics.h"

#include "splat.hpp"

namespace fk::reference {
namespace {

struct SphericalHarmonics : Base<spherical_harmonics> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_floats(max.coeffs);
    if (max.coeffs->shape[1] != (init.degree + 1) * (init.degree + 1))
      throw unsupported{"coeffs: (degree + 1)^2 for each point"};
  }
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t count = args.means->shape[0];
    for (int64_t b = 0; b < args.viewmats->shape[0]; ++b) {
      const Camera camera(args.viewmats, nullptr, b);
      for (int64_t i = 0; i < count; ++i) {
        const auto colour =
            seen_colour(camera, data<float>(args.means) + 3 * i, args.coeffs, i, init.offset);
        store(args.out, offset(args.out, b, i), 3, colour.data());
      }
    }
  }
};
FK_OP(spherical_harmonics, SphericalHarmonics);

}  // namespace
}  // namespace fk::reference
