// SPDX-License-Identifier: Apache-2.0
// rwkv7_output: three passes over each head: mean and sum of r k r_k, variance, output.
#include "math.hpp"

namespace fk::cpu {
struct Rwkv7Output {
  const void *o, *r, *k, *v, *g, *weight, *bias, *r_k;
  void* out;
  int64_t heads, width;
  float eps;
  int type, weight_type;
};
}  // namespace fk::cpu
// Heads [begin, end) of all tokens, counted as one axis.
FK_CPU_KERNEL(rwkv7_output_heads, const Rwkv7Output&, int64_t begin, int64_t end)

namespace fk::cpu::FK_CPU_LEVEL {

template <class T, class W>
void rwkv7_output_rows(const Rwkv7Output& a, int64_t begin, int64_t end) {
  const auto width = static_cast<float>(a.width);
  for (int64_t row = begin; row < end; ++row) {
    const int64_t at = row * a.width, of_head = row % a.heads * a.width;
    const T *o = static_cast<const T*>(a.o) + at, *r = static_cast<const T*>(a.r) + at;
    const T *k = static_cast<const T*>(a.k) + at, *v = static_cast<const T*>(a.v) + at;
    const T* g = static_cast<const T*>(a.g) + at;
    const W* weight = static_cast<const W*>(a.weight) + of_head;
    const W* bias = static_cast<const W*>(a.bias) + of_head;
    const W* r_k = static_cast<const W*>(a.r_k) + of_head;
    Vf sums{}, products{};
    each_vector(a.width, [&](int64_t i, auto n) {
      sums += load(o + i, n);
      products += load(r + i, n) * load(k + i, n) * load(r_k + i, n);
    });
    const float mean = sum(sums) / width, own = sum(products);
    Vf squares{};
    each_vector(a.width, [&](int64_t i, auto n) {
      Vf d = load(o + i, n) - mean;
      // Lanes beyond the row are zeros, and their distance from the mean does not count.
      for (int64_t lane = lanes(n); lane < kLanes; ++lane) d[lane] = 0;
      squares += d * d;
    });
    const float scale = 1.f / root(sum(squares) / width + a.eps);
    each_vector(a.width, [&](int64_t i, auto n) {
      const Vf y = (load(o + i, n) - mean) * scale * load(weight + i, n) + load(bias + i, n);
      store(static_cast<T*>(a.out) + at + i, (y + load(v + i, n) * own) * load(g + i, n), n);
    });
  }
}

void rwkv7_output_heads(const Rwkv7Output& a, int64_t begin, int64_t end) {
  with_type(a.type, [&]<class T>() {
    with_type(a.weight_type, [&]<class W>() { rwkv7_output_rows<T, W>(a, begin, end); });
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/rwkv7_output.h"
#include "op.hpp"

namespace fk::cpu {

struct Rwkv7OutputOp {
  using op = fk::rwkv7_output;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights& weights, const op::forward& max,
                       fk_need&) {
    need_float(max.o, "o: f32, bf16 or f16");
    for (const fk_in* view : {max.r, max.k, max.v, max.g})
      need_same(max.o, view, "r, k, v, g: of o's type");
    need_same(max.o, max.out, "out: of o's type");
    need_float(weights.weight, "weight: f32, bf16 or f16");
    for (const fk_in* view : {weights.bias, weights.r_k})
      need_same(weights.weight, view, "bias, r_k: of weight's type");
  }
  Rwkv7OutputOp(const fk_host& host, const op::init& init, const op::weights& weights)
      : init_(init), weights_(weights), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const Rwkv7Output a{args.o->data,        args.r->data,
                        args.k->data,        args.v->data,
                        args.g->data,        weights_.weight->data,
                        weights_.bias->data, weights_.r_k->data,
                        args.out->data,      init_.num_heads,
                        init_.head_dim,      static_cast<float>(init_.eps),
                        type_of(args.o),     type_of(weights_.weight)};
    split(threads_, args.o->shape[0] * init_.num_heads, 8 * args.o->nbytes,
          [&](int64_t begin, int64_t end, int) { kernel_(a, begin, end); });
  }

 private:
  const op::init& init_;
  const op::weights& weights_;
  const int threads_;
  decltype(&generic::rwkv7_output_heads) kernel_ = FK_CPU_PICK(rwkv7_output_heads);
};
FK_OP(rwkv7_output, Rwkv7OutputOp);

}  // namespace fk::cpu
#endif
