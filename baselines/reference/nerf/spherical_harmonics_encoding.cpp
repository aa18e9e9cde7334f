// SPDX-License-Identifier: Apache-2.0
// spherical_harmonics_encoding: harmonics_of of nerf.hpp, direction by direction.
#include "fk/ops/spherical_harmonics_encoding.h"

#include "nerf.hpp"

namespace fk::reference {
namespace {

struct SphericalHarmonicsEncoding : Base<spherical_harmonics_encoding> {
  using Base::Base;
  static void supports(const op::init&, const op::weights&, const op::forward&, fk_need&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const auto* d = data<float>(args.directions);
    for (int64_t t = 0; t < args.directions->shape[0]; ++t, d += 3) {
      const auto all = harmonics_of(value(d[0]), value(d[1]), value(d[2]));
      store(args.out, offset(args.out, t), args.out->shape[1], all.data());
    }
  }
};
FK_OP(spherical_harmonics_encoding, SphericalHarmonicsEncoding);

}  // namespace
}  // namespace fk::reference
