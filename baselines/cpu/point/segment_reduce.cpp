// SPDX-License-Identifier: Apache-2.0
// segment_reduce: segment by segment; memory bounds its time.
#include "simd.hpp"

namespace fk::cpu {
struct Segments {
  const void* x;
  void* out;
  const int32_t *rows, *offsets;
  int64_t width;
  int type, out_type;
  bool mean;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(reduced_segments, const Segments&, int64_t begin, int64_t end)

namespace fk::cpu::FK_CPU_LEVEL {

template <class T, class Out>
FK_INLINE void reduced_segment(const Segments& a, int64_t b) {
  const int64_t first = a.offsets[b], last = a.offsets[b + 1];
  each_vector(a.width, [&](int64_t c, auto n) {
    Vf sum = {};
    for (int64_t j = first; j < last; ++j) {
      const Vf v = load(static_cast<const T*>(a.x) + a.rows[j] * a.width + c, n);
      if (a.mean)
        sum += v;
      else
        sum = j == first ? v : (v <= sum ? sum : v);
    }
    if (a.mean && last > first) sum = sum / splat(static_cast<float>(last - first));
    store(static_cast<Out*>(a.out) + b * a.width + c, sum, n);
  });
}

// Segments [begin, end).
void reduced_segments(const Segments& a, int64_t begin, int64_t end) {
  with_type(a.type, [&]<class T>() {
    with_type(a.out_type, [&]<class Out>() {
      for (int64_t b = begin; b < end; ++b) reduced_segment<T, Out>(a, b);
    });
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/segment_reduce.h"
#include "op.hpp"

namespace fk::cpu {

struct SegmentReduceOp {
  using op = fk::segment_reduce;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    need_float(max.x, "x: f32, bf16 or f16");
    need_float(max.out, "out: f32, bf16 or f16");
  }
  SegmentReduceOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const Segments a{.x = args.x->data,
                     .out = args.out->data,
                     .rows = data<int32_t>(args.rows),
                     .offsets = data<int32_t>(args.offsets),
                     .width = init_.size,
                     .type = type_of(args.x),
                     .out_type = type_of(args.out),
                     .mean = init_.reduce == 1};
    split(threads_, args.out->shape[0], args.x->nbytes + args.out->nbytes,
          [&](int64_t begin, int64_t end, int) { kernel_(a, begin, end); });
  }

 private:
  const op::init& init_;
  const int threads_;
  decltype(&generic::reduced_segments) kernel_ = FK_CPU_PICK(reduced_segments);
};
FK_OP(segment_reduce, SegmentReduceOp);

}  // namespace fk::cpu
#endif
