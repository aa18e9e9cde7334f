// SPDX-License-Identifier: Apache-2.0
// distance_bins: a row of bins for each pair, in double, since edges decide.
#ifdef FK_CPU_OPS
#include "fk/ops/distance_bins.h"
#include "op.hpp"
#include "small_m.hpp"

namespace fk::cpu {

struct DistanceBinsOp {
  using op = fk::distance_bins;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_float(max.out, "out: f32, bf16 or f16");
    need.scratch = threads_max() * padded(init.num_bins) * 4;
  }
  DistanceBinsOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t tokens = args.rows->shape[0], bins = init_.num_bins;
    const int64_t element = bytes_of(type_of(args.out));
    split(threads_, tokens * tokens, args.out->nbytes * 4,
          [&](int64_t begin, int64_t end, int thread) {
            float* row = static_cast<float*>(ctx.scratch) + thread * padded(bins);
            for (int64_t pair = begin; pair < end; ++pair) {
              one(args, pair / tokens, pair % tokens, row);
              convert_({row, data<char>(args.out) + pair * bins * element, /*bias=*/nullptr, kF32,
                        type_of(args.out), /*bias_type=*/0},
                       bins);
            }
          });
  }

 private:
  void one(const op::forward& args, int64_t i, int64_t j, float* row) const {
    const int64_t bins = init_.num_bins;
    const float* a = data<float>(args.positions) + 3 * int64_t{data<int32_t>(args.rows)[i]};
    const float* b = data<float>(args.positions) + 3 * int64_t{data<int32_t>(args.rows)[j]};
    double squares = 0;
    for (int c = 0; c < 3; ++c)
      squares += std::pow(static_cast<double>(a[c]) - static_cast<double>(b[c]), 2);
    const auto square_of_edge = [&](int64_t n) {
      const double edge = init_.min_bin + (init_.max_bin - init_.min_bin) * static_cast<double>(n) /
                                              static_cast<double>(bins - 1);
      return edge * edge;
    };
    for (int64_t n = 0; n < bins; ++n)
      row[n] = squares > square_of_edge(n) && (n + 1 == bins || squares < square_of_edge(n + 1));
  }

  const op::init& init_;

  const int threads_;
  decltype(&generic::convert) convert_ = FK_CPU_PICK(convert);
};
FK_OP(distance_bins, DistanceBinsOp);

}  // namespace fk::cpu
#endif
