// SPDX-License-Identifier: Apache-2.0
// space_filling_code: interleaved() or hilbert() of point.hpp, cell by cell.
#include "fk/ops/space_filling_code.h"

#include "point.hpp"

namespace fk::reference {
namespace {

struct SpaceFillingCode : Base<space_filling_code> {
  using Base::Base;
  static void supports(const op::init&, const op::weights&, const op::forward&, fk_need&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    constexpr int64_t kTrans = 1, kHilbert = 2;  // bits of the choice
    const int32_t* cell = data<int32_t>(args.coords);
    for (int64_t t = 0; t < args.codes->shape[0]; ++t, cell += 4) {
      std::array<uint32_t, 3> at;
      for (size_t c = 0; c < 3; ++c) at[c] = static_cast<uint32_t>(cell[c + 1]);
      if (init.order & kTrans) std::swap(at[0], at[1]);
      const int64_t code =
          init.order & kHilbert ? hilbert(at, init.depth) : interleaved(at, init.depth);
      const bool counts = cell[0] >= 0 && cell[0] < init.batch_size;
      data<int64_t>(args.codes)[t] =
          counts ? static_cast<int64_t>(cell[0]) << (3 * init.depth) | code : kNoCode;
    }
  }
};
FK_OP(space_filling_code, SpaceFillingCode);

}  // namespace
}  // namespace fk::reference
