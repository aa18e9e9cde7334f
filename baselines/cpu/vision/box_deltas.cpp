// SPDX-License-Identifier: Apache-2.0
// box_deltas: boxes are few, so functions of the library compute them.
#include "simd.hpp"

#ifdef FK_CPU_OPS
#include "fk/ops/box_deltas.h"
#include "op.hpp"

namespace fk::cpu {

struct BoxDeltasOp {
  using op = fk::box_deltas;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    need_float(max.columns, "columns: f32, bf16 or f16");
    need_same(max.columns, max.rows, "rows: of the type of columns");
  }
  BoxDeltasOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t high = init_.image_size->at[0], wide = init_.image_size->at[1];
    split(threads_, args.boxes->shape[0], args.boxes->shape[0] * (high + wide) * 64,
          [&](int64_t begin, int64_t end, int) {
            generic::with_type(type_of(args.rows), [&]<class T>() {
              for (int64_t t = begin; t < end; ++t) {
                const float* box = data<float>(args.boxes) + 4 * t;
                write(static_cast<T*>(args.columns->data) + 2 * t * wide, wide, box[0], box[2]);
                write(static_cast<T*>(args.rows->data) + 2 * t * high, high, box[1], box[3]);
              }
            });
          });
  }

 private:
  template <class T>
  static void write(T* out, int64_t count, float middle, float width) {
    for (int64_t i = 0; i < count; ++i) {
      const double place = static_cast<double>(i) / static_cast<double>(count);
      for (int side = 0; side < 2; ++side) {
        const double half = (side ? 0.5 : -0.5) * static_cast<double>(width);
        const double d = 8 * (place - (static_cast<double>(middle) + half));
        const double far = std::copysign(std::log2(std::abs(d) + 1) / 3, d);
        generic::store_n(out + 2 * i + side, generic::splat(static_cast<float>(far)), 1);
      }
    }
  }

  const op::init& init_;
  const int threads_;
};
FK_OP(box_deltas, BoxDeltasOp);

}  // namespace fk::cpu
#endif
