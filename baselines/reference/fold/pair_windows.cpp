// SPDX-License-Identifier: Apache-2.0
// pair_windows: pair by pair.
#include "fk/ops/pair_windows.h"

#include "op.hpp"

namespace fk::reference {
namespace {

struct PairWindows : Base<pair_windows> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.x, max.out);
    need.scratch = init.size * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    double* row = Scratch(ctx).take(init.size);
    const int64_t queries = args.q_rows->shape[1], keys = args.k_rows->shape[1];
    const auto token = [&](const fk_in* rows, int64_t at) {
      return data<int32_t>(args.tokens)[data<int32_t>(rows)[at]];
    };
    for (int64_t w = 0; w < args.q_rows->shape[0]; ++w) {
      for (int64_t m = 0; m < queries; ++m) {
        for (int64_t s = 0; s < keys; ++s) {
          const int64_t q = token(args.q_rows, w * queries + m),
                        k = token(args.k_rows, w * keys + s);
          load(args.x, offset(args.x, q, k), init.size, row);
          store(args.out, offset(args.out, w, m, s), init.size, row);
        }
      }
    }
  }
};
FK_OP(pair_windows, PairWindows);

}  // namespace
}  // namespace fk::reference
