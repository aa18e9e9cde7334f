// SPDX-License-Identifier: Apache-2.0
// box_embedding: boxes are few, so functions of the library compute them.
#include "simd.hpp"

#ifdef FK_CPU_OPS
#include "fk/ops/box_embedding.h"
#include "op.hpp"

namespace fk::cpu {

struct BoxEmbeddingOp {
  using op = fk::box_embedding;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_float(max.out, "out: f32, bf16 or f16");
    if (init.size % 8) throw unsupported{"size: a multiple of 8"};
  }
  BoxEmbeddingOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    split(threads_, args.boxes->shape[0], args.boxes->shape[0] * init_.size * 64,
          [&](int64_t begin, int64_t end, int) {
            generic::with_type(type_of(args.out), [&]<class T>() {
              for (int64_t t = begin; t < end; ++t)
                one(data<float>(args.boxes) + 4 * t,
                    static_cast<T*>(args.out->data) + t * init_.size);
            });
          });
  }

 private:
  template <class T>
  void one(const float* box, T* out) const {
    constexpr int kNumbers[] = {1, 0, 2, 3};  // y, x, width, height
    const int64_t each = init_.size / 4;
    for (int64_t c = 0; c < init_.size; c += 2) {
      const double share = static_cast<double>(c % each) / static_cast<double>(each);
      const double angle = static_cast<double>(box[kNumbers[c / each]]) * init_.scale /
                           std::pow(init_.temperature, share);
      generic::store_n(out + c, generic::splat(static_cast<float>(std::sin(angle))), 1);
      generic::store_n(out + c + 1, generic::splat(static_cast<float>(std::cos(angle))), 1);
    }
  }

  const op::init& init_;
  const int threads_;
};
FK_OP(box_embedding, BoxEmbeddingOp);

}  // namespace fk::cpu
#endif
