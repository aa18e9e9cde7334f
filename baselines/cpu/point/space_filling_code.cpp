// SPDX-License-Identifier: Apache-2.0
// space_filling_code: all bits of a coordinate spread at once.
#include "level.hpp"

#ifdef FK_CPU_OPS
#include "fk/ops/space_filling_code.h"
#include "point/curve.hpp"

namespace fk::cpu {

struct SpaceFillingCodeOp {
  using op = fk::space_filling_code;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward&, fk_need&) {}
  SpaceFillingCodeOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    split(threads_, args.codes->shape[0], args.codes->nbytes * 16,
          [&](int64_t begin, int64_t end, int) {
            for (int64_t t = begin; t < end; ++t) {
              const int32_t* cell = data<int32_t>(args.coords) + 4 * t;
              uint32_t at[3];
              for (int c = 0; c < 3; ++c) at[c] = static_cast<uint32_t>(cell[c + 1]);
              if (init_.order & 1) std::swap(at[0], at[1]);
              const int64_t code =
                  init_.order & 2 ? hilbert(at, init_.depth) : interleave(at, init_.depth);
              const bool counts = cell[0] >= 0 && cell[0] < init_.batch_size;
              data<int64_t>(args.codes)[t] =
                  counts ? static_cast<int64_t>(cell[0]) << (3 * init_.depth) | code : kNoCode;
            }
          });
  }

 private:
  const op::init& init_;
  const int threads_;
};
FK_OP(space_filling_code, SpaceFillingCodeOp);

}  // namespace fk::cpu
#endif
