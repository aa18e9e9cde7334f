// SPDX-License-Identifier: Apache-2.0
// The kernel of selective_scan and selective_scan_update, and the class that both ops derive from.
// The kernel takes some channels of one request, token by token, with their states in the
// first-level cache.
#pragma once
#include "level.hpp"

namespace fk::cpu {
// Arguments of one call: for each token, state = state * exp(s * a) + s * x * b with s =
// softplus(dt
// + dt_bias), out = (state . c + skip * x) * silu(z). The op's contract has the details (fk-host
// show selective_scan).
struct Selective {
  const void *x, *dt, *b, *c, *z;  // z may be null
  void *out, *state;
  const float* a;
  const void *skip, *dt_bias;                                       // per channel, or null
  int64_t size;                                                     // of a channel's state
  int64_t x_token, dt_token, b_token, c_token, z_token, out_token;  // in elements
  int64_t state_slot, state_channel;
  bool softplus;
  int type, state_type, skip_type, dt_bias_type;
};
}  // namespace fk::cpu
// Tokens [first, last) of a request for the channels [begin, end), at most kSelectiveChannels. If
// `fresh`, the state counts as zeros. `scratch` has selective_scratch() floats.
FK_CPU_KERNEL(selective_channels, const Selective&, int64_t first, int64_t last, int64_t slot,
              bool fresh, int64_t begin, int64_t end, float* scratch)

namespace fk::cpu {
inline constexpr int64_t kSelectiveChannels = 64;
}

#ifdef FK_CPU_OPS
#include "op.hpp"

namespace fk::cpu {

inline int64_t selective_scratch(int64_t size) {
  return kSelectiveChannels * (padded(size) + 2) + 2 * padded(size);
}

// The base of both ops. They differ in how they find a request's tokens.
template <class Op>
class SelectiveOp {
 public:
  using op = Op;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const typename op::init& init, const typename op::weights& weights,
                       const typename op::forward& max, fk_need& need) {
    need_float(max.x, "x: f32, bf16 or f16");
    need_same(max.x, max.dt, "dt: of x's type");
    need_same(max.x, max.b, "b: of x's type");
    need_same(max.x, max.c, "c: of x's type");
    if (max.z.or_null) need_same(max.x, max.z.or_null, "z: of x's type");
    need_same(max.x, max.out, "out: of x's type");
    need_float(max.ssm_state, "ssm_state: f32, bf16 or f16");
    if (weights.d.or_null) need_float(weights.d.or_null, "d: f32, bf16 or f16");
    if (weights.dt_bias.or_null) need_float(weights.dt_bias.or_null, "dt_bias: f32, bf16 or f16");
    need.scratch = threads_max() * selective_scratch(init.state_size) * 4;
  }
  SelectiveOp(const fk_host& host, const typename op::init& init,
              const typename op::weights& weights)
      : init_(init), weights_(weights), threads_(threads_of(host)) {}
  void prepare(const typename op::forward&, const fk_memory&) {}

 protected:
  // tokens(request, first, last, fresh) sets the last three: the request's tokens are [first,
  // last).
  template <class Tokens>
  void run(const typename op::forward& args, void* scratch, const Tokens& tokens) const {
    const Selective a = describe(args);
    const int64_t room = selective_scratch(init_.state_size);
    const int32_t* slots = data<int32_t>(args.state_slots);
    const int64_t requests = args.state_slots->shape[0];
    const int64_t blocks = (init_.channels + kSelectiveChannels - 1) / kSelectiveChannels;
    // An estimate: each state element is read and written (8 bytes). The exponential of a token and
    // a state element takes the time of 16 bytes.
    const int64_t bytes =
        (requests * 8 + args.x->shape[0] * 16) * init_.channels * init_.state_size;
    share(threads_, requests * blocks, bytes, [&](int64_t item, int thread) {
      const int64_t request = item / blocks, begin = item % blocks * kSelectiveChannels;
      int64_t first = 0, last = 0;
      bool fresh = false;
      tokens(request, first, last, fresh);
      if (first < last) {
        kernel_(a, first, last, slots[request], fresh, begin,
                std::min(init_.channels, begin + kSelectiveChannels),
                static_cast<float*>(scratch) + thread * room);
      }
    });
  }

 private:
  Selective describe(const typename op::forward& f) const {
    Selective a{};
    a.x = f.x->data, a.dt = f.dt->data, a.b = f.b->data, a.c = f.c->data;
    a.out = f.out->data, a.state = f.ssm_state->data;
    a.a = data<float>(weights_.a);
    a.skip = data<void>(weights_.d), a.dt_bias = data<void>(weights_.dt_bias);
    a.size = init_.state_size;
    a.x_token = f.x->strides[0], a.dt_token = f.dt->strides[0], a.b_token = f.b->strides[0];
    a.c_token = f.c->strides[0], a.out_token = f.out->strides[0];
    if (const fk_in* z = f.z.or_null) a.z = z->data, a.z_token = z->strides[0];
    a.state_slot = f.ssm_state->strides[0], a.state_channel = f.ssm_state->strides[1];
    a.softplus = init_.dt_softplus != 0;
    a.type = type_of(f.x), a.state_type = type_of(f.ssm_state);
    a.skip_type = type_or_f32(weights_.d), a.dt_bias_type = type_or_f32(weights_.dt_bias);
    return a;
  }

  const typename op::init& init_;
  const typename op::weights& weights_;
  const int threads_;
  decltype(&generic::selective_channels) kernel_ = FK_CPU_PICK(selective_channels);
};

}  // namespace fk::cpu
#endif
