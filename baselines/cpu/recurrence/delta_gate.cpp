// SPDX-License-Identifier: Apache-2.0
// delta_gate: softplus of the decays and sigmoid of beta, a vector of lanes at a time. Where a head
// has one decay, lanes are heads, else channels of one head.
#include "math.hpp"

namespace fk::cpu {
struct DeltaGate {
  const void *x, *b, *dt_bias;
  const float* a;
  float *g, *beta;
  int64_t heads, width, x_token, x_head, b_token;
  int type, bias_type;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(delta_gate_tokens, const DeltaGate&, int64_t begin, int64_t end)

namespace fk::cpu::FK_CPU_LEVEL {

template <class T, class W>
void delta_gate_rows(const DeltaGate& a, int64_t begin, int64_t end) {
  const W* bias = static_cast<const W*>(a.dt_bias);
  for (int64_t t = begin; t < end; ++t) {
    const T* x = static_cast<const T*>(a.x) + t * a.x_token;
    const T* b = static_cast<const T*>(a.b) + t * a.b_token;
    float *g = a.g + t * a.heads * a.width, *beta = a.beta + t * a.heads;
    each_vector(a.heads, [&](int64_t i, auto n) { store(beta + i, sigmoid(load(b + i, n)), n); });
    if (a.width == 1 && a.x_head == 1) {
      each_vector(a.heads, [&](int64_t i, auto n) {
        store(g + i, load(a.a + i, n) * softplus(load(x + i, n) + load(bias + i, n)), n);
      });
      continue;
    }
    for (int64_t h = 0; h < a.heads; ++h) {
      const T* row = x + h * a.x_head;
      each_vector(a.width, [&](int64_t i, auto n) {
        const Vf v = load(row + i, n) + load(bias + h * a.width + i, n);
        store(g + h * a.width + i, softplus(v) * a.a[h], n);
      });
    }
  }
}

void delta_gate_tokens(const DeltaGate& a, int64_t begin, int64_t end) {
  with_type(a.type, [&]<class T>() {
    with_type(a.bias_type, [&]<class W>() { delta_gate_rows<T, W>(a, begin, end); });
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/delta_gate.h"
#include "op.hpp"

namespace fk::cpu {

struct DeltaGateOp {
  using op = fk::delta_gate;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights& weights, const op::forward& max,
                       fk_need&) {
    need_float(max.x, "x: f32, bf16 or f16");
    need_same(max.x, max.b, "b: of x's type");
    need_float(weights.dt_bias, "dt_bias: f32, bf16 or f16");
  }
  DeltaGateOp(const fk_host& host, const op::init& init, const op::weights& weights)
      : init_(init), weights_(weights), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    DeltaGate a{};
    a.x = args.x->data, a.b = args.b->data, a.dt_bias = weights_.dt_bias->data;
    a.a = data<float>(weights_.a);
    a.g = static_cast<float*>(args.g->data), a.beta = static_cast<float*>(args.beta->data);
    a.heads = init_.num_heads, a.width = init_.gate_dim;
    a.x_token = args.x->strides[0], a.x_head = args.x->strides[1], a.b_token = args.b->strides[0];
    a.type = type_of(args.x), a.bias_type = type_of(weights_.dt_bias);
    split(threads_, args.x->shape[0], 8 * args.g->nbytes,
          [&](int64_t begin, int64_t end, int) { kernel_(a, begin, end); });
  }

 private:
  const op::init& init_;
  const op::weights& weights_;
  const int threads_;
  decltype(&generic::delta_gate_tokens) kernel_ = FK_CPU_PICK(delta_gate_tokens);
};
FK_OP(delta_gate, DeltaGateOp);

}  // namespace fk::cpu
#endif
