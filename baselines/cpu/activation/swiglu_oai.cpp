// SPDX-License-Identifier: Apache-2.0
// swiglu_oai: gate and up are neighbouring columns of x. A block of them is copied to two arrays,
// so that vectors of each can be loaded.
#include "math.hpp"

namespace fk::cpu {
struct SwigluOai {
  const void* x;
  void* out;
  int64_t size;  // columns of out
  float alpha, limit;
  int type;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(swiglu_oai, const SwigluOai&, int64_t row, int64_t begin, int64_t end)

namespace fk::cpu::FK_CPU_LEVEL {

// Columns [begin, end) of one row.
void swiglu_oai(const SwigluOai& a, int64_t row, int64_t begin, int64_t end) {
  with_type(a.type, [&]<class T>() {
    const T* x = static_cast<const T*>(a.x) + (row * a.size + begin) * 2;
    T* out = static_cast<T*>(a.out) + row * a.size + begin;
    constexpr int64_t kBlock = 256;
    float gate[kBlock], up[kBlock];
    for (int64_t first = 0; first < end - begin; first += kBlock) {
      const int64_t left = end - begin - first, count = left < kBlock ? left : kBlock;
      for (int64_t i = 0; i < count; ++i) {
        gate[i] = to_float(x[2 * (first + i)]);
        up[i] = to_float(x[2 * (first + i) + 1]);
      }
      each_vector(count, [&](int64_t i, auto n) {
        const Vf g = min(load(gate + i, n), Vf{} + a.limit);
        const Vf u = max(min(load(up + i, n), Vf{} + a.limit), Vf{} - a.limit);
        store(out + first + i, (u + 1.f) * g / (1.f + exp(-a.alpha * g)), n);
      });
    }
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/swiglu_oai.h"
#include "op.hpp"

namespace fk::cpu {

struct SwigluOaiOp {
  using op = fk::swiglu_oai;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    need_float(max.x, "x: f32, bf16 or f16");
    need_same(max.x, max.out, "out: of x's type");
  }
  SwigluOaiOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const SwigluOai a{args.x->data,
                      args.out->data,
                      init_.size,
                      static_cast<float>(init_.alpha),
                      static_cast<float>(init_.limit),
                      type_of(args.x)};
    split_tiles(threads_, rows(args.x), init_.size, args.x->nbytes * 4,
                [&](int64_t row, int64_t begin, int64_t end) { kernel_(a, row, begin, end); });
  }

 private:
  const op::init& init_;
  const int threads_;
  decltype(&generic::swiglu_oai) kernel_ = FK_CPU_PICK(swiglu_oai);
};
FK_OP(swiglu_oai, SwigluOaiOp);

}  // namespace fk::cpu
#endif
