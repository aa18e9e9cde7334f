// SPDX-License-Identifier: Apache-2.0
// axial_bias: rows of pixels of a query; memory bounds its time.
#include "simd.hpp"

namespace fk::cpu {
struct AxialBias {
  const void *rows, *columns;       // of an image and a query
  void* out;                        // of the query, at head 0
  int64_t high, wide, heads, step;  // step: elements between heads
  int type;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(axial_bias_query, const AxialBias&)

namespace fk::cpu::FK_CPU_LEVEL {

void axial_bias_query(const AxialBias& a) {
  with_type(a.type, [&]<class T>() {
    const T *rows = static_cast<const T*>(a.rows), *columns = static_cast<const T*>(a.columns);
    for (int64_t h = 0; h < a.heads; ++h) {
      T* out = static_cast<T*>(a.out) + h * a.step;
      for (int64_t y = 0; y < a.high; ++y) {
        const float row = to_float(rows[y * a.heads + h]);
        for (int64_t x = 0; x < a.wide; ++x)
          store_n(out + y * a.wide + x, splat(row + to_float(columns[x * a.heads + h])), 1);
      }
    }
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/axial_bias.h"
#include "op.hpp"

namespace fk::cpu {

struct AxialBiasOp {
  using op = fk::axial_bias;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    need_float(max.rows, "rows: f32, bf16 or f16");
  }
  AxialBiasOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t high = args.rows->shape[2], wide = args.columns->shape[2];
    const int64_t queries = args.rows->shape[1], all = args.out->shape[2], heads = init_.num_heads;
    const int64_t size = bytes_of(type_of(args.rows)), pixels = high * wide;
    share(threads_, args.out->shape[0] * all, args.out->nbytes * 4, [&](int64_t item, int) {
      const int64_t b = item / all, m = item % all, query = b * queries + m - init_.prefix_rows;
      char* out = data<char>(args.out) + (b * heads * all + m) * pixels * size;
      if (m < init_.prefix_rows) {
        for (int64_t h = 0; h < heads; ++h)
          std::fill_n(out + h * all * pixels * size, pixels * size, char{0});
        return;
      }
      kernel_({data<char>(args.rows) + query * high * heads * size,
               data<char>(args.columns) + query * wide * heads * size, out, high, wide, heads,
               all * pixels, type_of(args.rows)});
    });
  }

 private:
  const op::init& init_;
  const int threads_;
  decltype(&generic::axial_bias_query) kernel_ = FK_CPU_PICK(axial_bias_query);
};
FK_OP(axial_bias, AxialBiasOp);

}  // namespace fk::cpu
#endif
