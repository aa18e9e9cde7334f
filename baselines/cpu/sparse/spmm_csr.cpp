// SPDX-License-Identifier: Apache-2.0
// spmm_csr: sums of a block of channels stay in registers, while a row's entries name rows of x.
// These are scattered, and prefetched a few entries ahead.
#include "simd.hpp"

namespace fk::cpu {
struct SpmmRows {
  const int32_t *indptr, *indices;
  const void *values, *x;
  void* out;
  int64_t channels;
  int values_type, type;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(spmm_rows, const SpmmRows&, int64_t begin, int64_t end)

namespace fk::cpu::FK_CPU_LEVEL {

inline constexpr int32_t kEntriesAhead = 6;  // from a prefetch to its use

// Channels [c, c + kBlock vectors) of row m; the last vector has n lanes.
template <class V, class T, int kBlock, class N>
FK_INLINE void spmm_block(const SpmmRows& a, int64_t m, int64_t c, N n) {
  const V* values = static_cast<const V*>(a.values);
  const T* x = static_cast<const T*>(a.x) + c;
  const int32_t first = a.indptr[m], last = a.indptr[m + 1];
  Vf sums[kBlock];
  for (Vf& s : sums) s = Vf{};
  for (int32_t j = first; j < last; ++j) {
    if (j + kEntriesAhead < last) {
      const T* next = x + int64_t{a.indices[j + kEntriesAhead]} * a.channels;
      for (int v = 0; v < kBlock; ++v) __builtin_prefetch(next + v * kLanes);
    }
    const T* row = x + int64_t{a.indices[j]} * a.channels;
    const Vf factor = splat(to_float(values[j]));
    for (int v = 0; v + 1 < kBlock; ++v) sums[v] += factor * load(row + v * kLanes);
    sums[kBlock - 1] += factor * load(row + (kBlock - 1) * kLanes, n);
  }
  T* out = static_cast<T*>(a.out) + m * a.channels + c;
  for (int v = 0; v + 1 < kBlock; ++v) store(out + v * kLanes, sums[v]);
  store(out + (kBlock - 1) * kLanes, sums[kBlock - 1], n);
}

// Rows [begin, end).
void spmm_rows(const SpmmRows& a, int64_t begin, int64_t end) {
  with_type(a.values_type, [&]<class V>() {
    with_type(a.type, [&]<class T>() {
      for (int64_t m = begin; m < end; ++m) {
        int64_t c = 0;
        for (; c + 8 * kLanes <= a.channels; c += 8 * kLanes) spmm_block<V, T, 8>(a, m, c, Full{});
        for (; c + 4 * kLanes <= a.channels; c += 4 * kLanes) spmm_block<V, T, 4>(a, m, c, Full{});
        for (; c + kLanes <= a.channels; c += kLanes) spmm_block<V, T, 1>(a, m, c, Full{});
        if (c < a.channels) spmm_block<V, T, 1>(a, m, c, a.channels - c);
      }
    });
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/spmm_csr.h"
#include "op.hpp"

namespace fk::cpu {

struct SpmmCsrOp {
  using op = fk::spmm_csr;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    need_float(max.values, "values: f32, bf16 or f16");
    need_float(max.x, "x: f32, bf16 or f16");
    need_same(max.x, max.out, "out: of x's type");
  }
  SpmmCsrOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const SpmmRows a{data<int32_t>(args.indptr),
                     data<int32_t>(args.indices),
                     args.values->data,
                     args.x->data,
                     args.out->data,
                     init_.size,
                     type_of(args.values),
                     type_of(args.x)};
    // Rows have unequal numbers of entries, so an item is a short run of them.
    constexpr int64_t kRun = 32;
    const int64_t rows = args.out->shape[0], runs = (rows + kRun - 1) / kRun;
    const int64_t bytes = args.indices->shape[0] * (init_.size * bytes_of(a.type) + 8);
    share(threads_, runs, bytes + args.out->nbytes,
          [&](int64_t run, int) { kernel_(a, run * kRun, std::min(rows, (run + 1) * kRun)); });
  }

 private:
  const op::init& init_;
  const int threads_;
  decltype(&generic::spmm_rows) kernel_ = FK_CPU_PICK(spmm_rows);
};
FK_OP(spmm_csr, SpmmCsrOp);

}  // namespace fk::cpu
#endif
