// SPDX-License-Identifier: Apache-2.0
// atom_pair_features: pair by pair.
#include "fk/ops/atom_pair_features.h"

#include "op.hpp"

namespace fk::reference {
namespace {

struct AtomPairFeatures : Base<atom_pair_features> {
  using Base::Base;
  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    need_floats(max.offsets, max.nearness, max.same);
  }
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t queries = args.q_rows->shape[1], keys = args.k_rows->shape[1];
    const auto* spaces = data<int32_t>(args.spaces);
    for (int64_t w = 0; w < args.q_rows->shape[0]; ++w) {
      for (int64_t m = 0; m < queries; ++m) {
        for (int64_t s = 0; s < keys; ++s) {
          const int64_t q = data<int32_t>(args.q_rows)[w * queries + m];
          const int64_t k = data<int32_t>(args.k_rows)[w * keys + s];
          double row[5] = {}, squares = 0;
          if (spaces[q] == spaces[k]) {
            for (int c = 0; c < 3; ++c) {
              row[c] = value(data<float>(args.positions)[3 * q + c]) -
                       value(data<float>(args.positions)[3 * k + c]);
              squares += row[c] * row[c];
            }
            row[3] = 1 / (1 + squares);
            row[4] = 1;
          }
          store(args.offsets, offset(args.offsets, w, m, s), 3, row);
          store(args.nearness, offset(args.nearness, w, m, s), 1, row + 3);
          store(args.same, offset(args.same, w, m, s), 1, row + 4);
        }
      }
    }
  }
};
FK_OP(atom_pair_features, AtomPairFeatures);

}  // namespace
}  // namespace fk::reference
