// SPDX-License-Identifier: Apache-2.0
// atom_pair_features: the rows of a query; memory bounds its time.
#ifdef FK_CPU_OPS
#include "fk/ops/atom_pair_features.h"
#include "op.hpp"
#include "small_m.hpp"

namespace fk::cpu {

struct AtomPairFeaturesOp {
  using op = fk::atom_pair_features;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need& need) {
    need_float(max.offsets, "offsets: f32, bf16 or f16");
    need.scratch = threads_max() * 5 * padded(max.k_rows->shape[1]) * 4;
  }
  AtomPairFeaturesOp(const fk_host& host, const op::init&, const op::weights&)
      : threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t queries = args.q_rows->shape[1], keys = args.k_rows->shape[1];
    split(threads_, args.q_rows->shape[0] * queries, args.offsets->nbytes * 4,
          [&](int64_t begin, int64_t end, int thread) {
            float* rows = static_cast<float*>(ctx.scratch) + thread * 5 * padded(keys);
            for (int64_t row = begin; row < end; ++row) one(args, row, queries, keys, rows);
          });
  }

 private:
  void one(const op::forward& args, int64_t row, int64_t queries, int64_t keys, float* rows) const {
    const auto* spaces = data<int32_t>(args.spaces);
    const int64_t q = data<int32_t>(args.q_rows)[row];
    const int32_t* chosen = data<int32_t>(args.k_rows) + row / queries * keys;
    float *offsets = rows, *nearness = rows + 3 * keys, *same = rows + 4 * keys;
    for (int64_t s = 0; s < keys; ++s) {
      const bool one_space = spaces[q] == spaces[chosen[s]];
      float squares = 0;
      for (int c = 0; c < 3; ++c) {
        const float d = data<float>(args.positions)[3 * q + c] -
                        data<float>(args.positions)[3 * int64_t{chosen[s]} + c];
        squares += d * d;
        offsets[3 * s + c] = one_space ? d : 0;
      }
      nearness[s] = one_space ? 1 / (1 + squares) : 0;
      same[s] = one_space ? 1 : 0;
    }
    const int64_t element = bytes_of(type_of(args.offsets));
    const auto put = [&](const float* from, const fk_out* to, int64_t width) {
      convert_({from, data<char>(to) + row * width * element, /*bias=*/nullptr, kF32, type_of(to),
                /*bias_type=*/0},
               width);
    };
    put(offsets, args.offsets, 3 * keys);
    put(nearness, args.nearness, keys);
    put(same, args.same, keys);
  }

  const int threads_;
  decltype(&generic::convert) convert_ = FK_CPU_PICK(convert);
};
FK_OP(atom_pair_features, AtomPairFeaturesOp);

}  // namespace fk::cpu
#endif
