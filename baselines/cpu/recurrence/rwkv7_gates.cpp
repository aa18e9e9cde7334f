// SPDX-License-Identifier: Apache-2.0
// rwkv7_gates: two passes over each head, the first for the length of kk.
#include "math.hpp"

namespace fk::cpu {
struct Rwkv7Gates {
  const void *w, *k, *a, *v_first, *v_gate, *k_k, *k_a;  // v_first, v_gate: with v
  void *v, *key, *remove, *add;                          // v may be null
  float* decay;
  int64_t heads, width;
  int type, weight_type;
};
}  // namespace fk::cpu
// Heads [begin, end) of all tokens, counted as one axis.
FK_CPU_KERNEL(rwkv7_gates_heads, const Rwkv7Gates&, int64_t begin, int64_t end)

namespace fk::cpu::FK_CPU_LEVEL {

template <class T, class W>
void rwkv7_gates_rows(const Rwkv7Gates& g, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const int64_t at = row * g.width, of_head = row % g.heads * g.width;
    const T *w = static_cast<const T*>(g.w) + at, *k = static_cast<const T*>(g.k) + at;
    const T* a = static_cast<const T*>(g.a) + at;
    const W* k_k = static_cast<const W*>(g.k_k) + of_head;
    const W* k_a = static_cast<const W*>(g.k_a) + of_head;
    Vf squares{};
    each_vector(g.width, [&](int64_t i, auto n) {
      store(g.decay + at + i, sigmoid(load(w + i, n)) * -0.60653066f, n);
      const Vf kk = load(k + i, n) * load(k_k + i, n);
      squares += kk * kk;
    });
    const float length = root(sum(squares)), scale = 1.f / (length > 1e-12f ? length : 1e-12f);
    each_vector(g.width, [&](int64_t i, auto n) {
      const Vf s = sigmoid(load(a + i, n)), key = load(k + i, n);
      const Vf kk = key * load(k_k + i, n) * scale;
      store(static_cast<T*>(g.key) + at + i, key * ((s - 1.f) * load(k_a + i, n) + 1.f), n);
      store(static_cast<T*>(g.remove) + at + i, -kk, n);
      store(static_cast<T*>(g.add) + at + i, kk * s, n);
    });
    if (!g.v) continue;
    T* v = static_cast<T*>(g.v) + at;
    const T* first = static_cast<const T*>(g.v_first) + at;
    const T* gate = static_cast<const T*>(g.v_gate) + at;
    each_vector(g.width, [&](int64_t i, auto n) {
      const Vf own = load(v + i, n);
      store(v + i, own + (load(first + i, n) - own) * sigmoid(load(gate + i, n)), n);
    });
  }
}

void rwkv7_gates_heads(const Rwkv7Gates& g, int64_t begin, int64_t end) {
  with_type(g.type, [&]<class T>() {
    with_type(g.weight_type, [&]<class W>() { rwkv7_gates_rows<T, W>(g, begin, end); });
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/rwkv7_gates.h"
#include "op.hpp"

namespace fk::cpu {

struct Rwkv7GatesOp {
  using op = fk::rwkv7_gates;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights& weights, const op::forward& max,
                       fk_need&) {
    need_float(max.k, "k: f32, bf16 or f16");
    for (const fk_in* view : {max.w, max.a}) need_same(max.k, view, "w, a: of k's type");
    for (const fk_out* view : {max.key, max.remove, max.add})
      need_same(max.k, view, "key, remove, add: of k's type");
    need_float(weights.k_k, "k_k: f32, bf16 or f16");
    need_same(weights.k_k, weights.k_a, "k_a: of k_k's type");
  }
  Rwkv7GatesOp(const fk_host& host, const op::init& init, const op::weights& weights)
      : init_(init), weights_(weights), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    Rwkv7Gates g{};
    g.w = args.w->data, g.k = args.k->data, g.a = args.a->data;
    g.k_k = weights_.k_k->data, g.k_a = weights_.k_a->data;
    if (args.v.or_null) {
      g.v = args.v.or_null->data;
      g.v_first = args.v_first.or_null->data, g.v_gate = args.v_gate.or_null->data;
    }
    g.key = args.key->data, g.remove = args.remove->data, g.add = args.add->data;
    g.decay = static_cast<float*>(args.decay->data);
    g.heads = init_.num_heads, g.width = init_.head_dim;
    g.type = type_of(args.k), g.weight_type = type_of(weights_.k_k);
    split(threads_, args.k->shape[0] * init_.num_heads, 16 * args.k->nbytes,
          [&](int64_t begin, int64_t end, int) { kernel_(g, begin, end); });
  }

 private:
  const op::init& init_;
  const op::weights& weights_;
  const int threads_;
  decltype(&generic::rwkv7_gates_heads) kernel_ = FK_CPU_PICK(rwkv7_gates_heads);
};
FK_OP(rwkv7_gates, Rwkv7GatesOp);

}  // namespace fk::cpu
#endif
