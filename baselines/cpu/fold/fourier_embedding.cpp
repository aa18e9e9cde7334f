// SPDX-License-Identifier: Apache-2.0
// fourier_embedding: a row for each request. Angles are double, because a time may be large.
#ifdef FK_CPU_OPS
#include "fk/ops/fourier_embedding.h"
#include "op.hpp"
#include "small_m.hpp"

namespace fk::cpu {

struct FourierEmbeddingOp {
  using op = fk::fourier_embedding;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_float(max.out, "out: f32, bf16 or f16");
    need.scratch = threads_max() * padded(init.size) * 4;
  }
  FourierEmbeddingOp(const fk_host& host, const op::init& init, const op::weights& weights)
      : init_(init), weights_(weights), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    constexpr double kTurn = 6.283185307179586;
    constexpr int64_t kBytesOfCosine = 200;  // about 15 ns
    const int64_t width = init_.size, element = bytes_of(type_of(args.out));
    split(threads_, args.t->shape[0], args.t->shape[0] * width * kBytesOfCosine,
          [&](int64_t begin, int64_t end, int thread) {
            float* row = static_cast<float*>(ctx.scratch) + thread * padded(width);
            for (int64_t b = begin; b < end; ++b) {
              const auto t = static_cast<double>(data<float>(args.t)[b]);
              for (int64_t c = 0; c < width; ++c)
                row[c] = static_cast<float>(
                    std::cos(kTurn * (t * static_cast<double>(data<float>(weights_.w)[c]) +
                                      static_cast<double>(data<float>(weights_.b)[c]))));
              convert_({row, data<char>(args.out) + b * width * element, /*bias=*/nullptr, kF32,
                        type_of(args.out), /*bias_type=*/0},
                       width);
            }
          });
  }

 private:
  const op::init& init_;
  const op::weights& weights_;
  const int threads_;
  decltype(&generic::convert) convert_ = FK_CPU_PICK(convert);
};
FK_OP(fourier_embedding, FourierEmbeddingOp);

}  // namespace fk::cpu
#endif
