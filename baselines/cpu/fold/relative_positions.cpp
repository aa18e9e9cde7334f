// SPDX-License-Identifier: Apache-2.0
// relative_positions: a row of features for each pair; memory bounds its time.
#ifdef FK_CPU_OPS
#include "fk/ops/relative_positions.h"
#include "op.hpp"
#include "small_m.hpp"

namespace fk::cpu {

struct RelativePositionsOp {
  using op = fk::relative_positions;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need& need) {
    need_float(max.out, "out: f32, bf16 or f16");
    need.scratch = threads_max() * padded(max.out->shape[2]) * 4;
  }
  RelativePositionsOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t tokens = args.out->shape[0], width = args.out->shape[2];
    const int64_t element = bytes_of(type_of(args.out));
    split(threads_, tokens * tokens, args.out->nbytes * 2,
          [&](int64_t begin, int64_t end, int thread) {
            float* row = static_cast<float*>(ctx.scratch) + thread * padded(width);
            for (int64_t pair = begin; pair < end; ++pair) {
              one(args, pair / tokens, pair % tokens, row, width);
              convert_({row, data<char>(args.out) + pair * width * element, /*bias=*/nullptr, kF32,
                        type_of(args.out), /*bias_type=*/0},
                       width);
            }
          });
  }

 private:
  void one(const op::forward& args, int64_t i, int64_t j, float* row, int64_t width) const {
    const int64_t near = init_.max_relative_idx, most = init_.max_relative_chain;
    const auto difference = [&](const fk_in* of) {
      return int64_t{data<int32_t>(of)[i]} - data<int32_t>(of)[j];
    };
    const auto bin = [&](const fk_in* of, bool same, int64_t reach) {
      return same ? std::clamp(difference(of) + reach, int64_t{0}, 2 * reach) : 2 * reach + 1;
    };
    const bool chain = difference(args.asym_id) == 0, entity = difference(args.entity_id) == 0;
    const bool residue = chain && difference(args.residue_index) == 0;
    std::fill_n(row, width, 0.F);
    row[bin(args.residue_index, chain, near)] = 1;
    row[2 * near + 2 + bin(args.token_index, residue, near)] = 1;
    row[4 * near + 4] = entity ? 1 : 0;
    row[4 * near + 5 + bin(args.sym_id, entity, most)] = 1;
  }

  const op::init& init_;

  const int threads_;
  decltype(&generic::convert) convert_ = FK_CPU_PICK(convert);
};
FK_OP(relative_positions, RelativePositionsOp);

}  // namespace fk::cpu
#endif
