// SPDX-License-Identifier: Apache-2.0
// pairwise_dots: a row is multiplied with four later rows at a time. A request's rows stay in the
// first-level cache.
#include "simd.hpp"

namespace fk::cpu {
struct PairwiseDots {
  const void* x;
  void* out;
  int64_t features, channels;
  int type;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(pairwise_dots, const PairwiseDots&, int64_t begin, int64_t end)

namespace fk::cpu::FK_CPU_LEVEL {

// Dots of row `a` with kRows rows that follow each other from `b` on.
template <class T, int kRows>
FK_INLINE void dots_of(const T* a, const T* b, int64_t channels, T* out) {
  Vf sums[kRows];
  for (Vf& s : sums) s = Vf{};
  each_vector(channels, [&](int64_t c, auto n) {
    const Vf row = load(a + c, n);
    for (int r = 0; r < kRows; ++r) sums[r] += row * load(b + r * channels + c, n);
  });
  // One element at a time: a vector is wider.
  for (int r = 0; r < kRows; ++r) store_n(out + r, splat(sum(sums[r])), 1);
}

// Requests [begin, end).
void pairwise_dots(const PairwiseDots& a, int64_t begin, int64_t end) {
  with_type(a.type, [&]<class T>() {
    T* out = static_cast<T*>(a.out) + begin * (a.features * (a.features - 1) / 2);
    for (int64_t request = begin; request < end; ++request) {
      const T* x = static_cast<const T*>(a.x) + request * a.features * a.channels;
      for (int64_t i = 0; i + 1 < a.features; ++i) {
        const T* row = x + i * a.channels;
        int64_t j = i + 1;
        for (; j + 4 <= a.features; j += 4, out += 4)
          dots_of<T, 4>(row, x + j * a.channels, a.channels, out);
        for (; j < a.features; ++j, ++out) dots_of<T, 1>(row, x + j * a.channels, a.channels, out);
      }
    }
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/pairwise_dots.h"
#include "op.hpp"

namespace fk::cpu {

struct PairwiseDotsOp {
  using op = fk::pairwise_dots;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    need_float(max.x, "x: f32, bf16 or f16");
    need_same(max.x, max.out, "out: of x's type");
  }
  PairwiseDotsOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t features = args.x->shape[1];
    const PairwiseDots a{args.x->data, args.out->data, features, init_.size, type_of(args.x)};
    split(threads_, args.x->shape[0], args.x->nbytes * (features / 4 + 1),
          [&](int64_t begin, int64_t end, int) { kernel_(a, begin, end); });
  }

 private:
  const op::init& init_;
  const int threads_;
  decltype(&generic::pairwise_dots) kernel_ = FK_CPU_PICK(pairwise_dots);
};
FK_OP(pairwise_dots, PairwiseDotsOp);

}  // namespace fk::cpu
#endif
