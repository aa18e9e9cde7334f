// SPDX-License-Identifier: Apache-2.0
// The kernel of ssd_chunk_scan and selective_state_update, and the class that both ops derive from.
// The kernel takes one head of one request, token by token, with its state in the first-level
// cache. A form in blocks of tokens would save operations only for states much wider than a head.
// It would also multiply the decays of a whole block.
#pragma once
#include "level.hpp"

namespace fk::cpu {
// Arguments of one call: for each token, state = state * exp(dt * a) + dt * x * b, out = state . c
// + skip * x. The op's contract has the details (fk-host show ssd_chunk_scan).
struct Ssd {
  const void *x, *dt, *b, *c;
  void *out, *state;
  const float* a;
  const void *skip, *dt_bias;  // per head, or null
  int64_t width, state_size, heads_per_group;
  int64_t x_token, x_head, dt_token, b_token, b_group, c_token, c_group, out_token;  // in elements
  int64_t state_slot, state_head, state_row;
  bool softplus;
  float dt_min, dt_max;  // dt_max 0: no limit
  int type, state_type, skip_type, dt_bias_type;
};
}  // namespace fk::cpu
// Tokens [first, last) of a request. If `fresh`, the state counts as zeros. `scratch` has
// ssd_scratch() floats.
FK_CPU_KERNEL(ssd_head, const Ssd&, int64_t first, int64_t last, int64_t slot, bool fresh,
              int64_t head, float* scratch)

#ifdef FK_CPU_OPS
#include "op.hpp"

namespace fk::cpu {

inline int64_t ssd_scratch(int64_t width, int64_t state_size) {
  return padded(width * state_size) + 2 * padded(state_size) + 2 * padded(width);
}

// The base of both ops. They differ in how they find a request's tokens.
template <class Op>
class SsdOp {
 public:
  using op = Op;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const typename op::init& init, const typename op::weights& weights,
                       const typename op::forward& max, fk_need& need) {
    need_float(max.x, "x: f32, bf16 or f16");
    need_same(max.x, max.dt, "dt: of x's type");
    need_same(max.x, max.b, "b: of x's type");
    need_same(max.x, max.c, "c: of x's type");
    need_same(max.x, max.out, "out: of x's type");
    need_float(max.ssm_state, "ssm_state: f32, bf16 or f16");
    if (weights.d.or_null) need_float(weights.d.or_null, "d: f32, bf16 or f16");
    if (weights.dt_bias.or_null) need_float(weights.dt_bias.or_null, "dt_bias: f32, bf16 or f16");
    if (init.num_heads % init.num_groups)
      throw unsupported{"num_heads is not a multiple of num_groups"};
    need.scratch = threads_max() * ssd_scratch(init.head_dim, init.state_size) * 4;
  }
  SsdOp(const fk_host& host, const typename op::init& init, const typename op::weights& weights)
      : init_(init), weights_(weights), threads_(threads_of(host)) {}
  void prepare(const typename op::forward&, const fk_memory&) {}

 protected:
  // tokens(request, first, last, fresh) sets the last three: the request's tokens are [first,
  // last).
  template <class Tokens>
  void run(const typename op::forward& args, void* scratch, const Tokens& tokens) const {
    const Ssd a = describe(args);
    const int64_t room = ssd_scratch(init_.head_dim, init_.state_size);
    const int32_t* slots = data<int32_t>(args.state_slots);
    const int64_t requests = args.state_slots->shape[0];
    // An estimate: each state element is read and written (8 bytes), and the arithmetic of an
    // output takes the time of 64 times its bytes.
    const int64_t bytes =
        requests * init_.num_heads * init_.head_dim * init_.state_size * 8 + args.out->nbytes * 64;
    share(threads_, requests * init_.num_heads, bytes, [&](int64_t item, int thread) {
      const int64_t request = item / init_.num_heads;
      int64_t first = 0, last = 0;
      bool fresh = false;
      tokens(request, first, last, fresh);
      if (first < last) {
        kernel_(a, first, last, slots[request], fresh, item % init_.num_heads,
                static_cast<float*>(scratch) + thread * room);
      }
    });
  }

  const typename op::init& init_;

 private:
  Ssd describe(const typename op::forward& f) const {
    Ssd a{};
    a.x = f.x->data, a.dt = f.dt->data, a.b = f.b->data, a.c = f.c->data;
    a.out = f.out->data, a.state = f.ssm_state->data;
    a.a = data<float>(weights_.a);
    a.skip = data<void>(weights_.d), a.dt_bias = data<void>(weights_.dt_bias);
    a.width = init_.head_dim, a.state_size = init_.state_size;
    a.heads_per_group = init_.num_heads / init_.num_groups;
    a.x_token = f.x->strides[0], a.x_head = f.x->strides[1], a.dt_token = f.dt->strides[0];
    a.b_token = f.b->strides[0], a.b_group = f.b->strides[1];
    a.c_token = f.c->strides[0], a.c_group = f.c->strides[1];
    a.out_token = f.out->strides[0];
    a.state_slot = f.ssm_state->strides[0], a.state_head = f.ssm_state->strides[1];
    a.state_row = f.ssm_state->strides[2];
    a.softplus = init_.dt_softplus != 0;
    a.dt_min = static_cast<float>(init_.dt_min), a.dt_max = static_cast<float>(init_.dt_max);
    a.type = type_of(f.x), a.state_type = type_of(f.ssm_state);
    a.skip_type = type_or_f32(weights_.d), a.dt_bias_type = type_or_f32(weights_.dt_bias);
    return a;
  }

  const typename op::weights& weights_;
  const int threads_;
  decltype(&generic::ssd_head) kernel_ = FK_CPU_PICK(ssd_head);
};

}  // namespace fk::cpu
#endif
