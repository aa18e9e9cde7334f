// SPDX-License-Identifier: Apache-2.0
// token_shift_mix: a tile of channels of one request, token by token.
#include "math.hpp"

namespace fk::cpu {
struct TokenShift {
  const void *x, *mu;
  void *out, *state;
  int64_t channels, mixtures, tokens;  // tokens: of all requests
  int64_t x_token, state_slot;         // in elements
  int type, mu_type, state_type;
};
inline constexpr int64_t kShiftTile = 256;
}  // namespace fk::cpu
// Tokens [first, last) of a request for the channels [begin, end), at most kShiftTile.
FK_CPU_KERNEL(token_shift_tile, const TokenShift&, int64_t first, int64_t last, int64_t slot,
              bool fresh, int64_t begin, int64_t end)

namespace fk::cpu::FK_CPU_LEVEL {

template <class T, class W, class S>
void token_shift_rows(const TokenShift& a, int64_t first, int64_t last, int64_t slot, bool fresh,
                      int64_t begin, int64_t end) {
  float before[kShiftTile];
  S* state = static_cast<S*>(a.state) + slot * a.state_slot + begin;
  const int64_t count = end - begin;
  each_vector(count,
              [&](int64_t i, auto n) { store(before + i, fresh ? Vf{} : load(state + i, n), n); });
  for (int64_t t = first; t < last; ++t) {
    const T* x = static_cast<const T*>(a.x) + t * a.x_token + begin;
    for (int64_t m = 0; m < a.mixtures; ++m) {
      const W* mu = static_cast<const W*>(a.mu) + m * a.channels + begin;
      T* out = static_cast<T*>(a.out) + (m * a.tokens + t) * a.channels + begin;
      each_vector(count, [&](int64_t i, auto n) {
        const Vf v = load(x + i, n);
        store(out + i, v + (load(before + i, n) - v) * load(mu + i, n), n);
      });
    }
    each_vector(count, [&](int64_t i, auto n) { store(before + i, load(x + i, n), n); });
  }
  each_vector(count, [&](int64_t i, auto n) { store(state + i, load(before + i, n), n); });
}

void token_shift_tile(const TokenShift& a, int64_t first, int64_t last, int64_t slot, bool fresh,
                      int64_t begin, int64_t end) {
  with_type(a.type, [&]<class T>() {
    with_type(a.mu_type, [&]<class W>() {
      with_type(a.state_type, [&]<class S>() {
        token_shift_rows<T, W, S>(a, first, last, slot, fresh, begin, end);
      });
    });
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/token_shift_mix.h"
#include "op.hpp"

namespace fk::cpu {

struct TokenShiftMixOp {
  using op = fk::token_shift_mix;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights& weights, const op::forward& max,
                       fk_need&) {
    need_float(max.x, "x: f32, bf16 or f16");
    need_same(max.x, max.out, "out: of x's type");
    need_float(max.shift_state, "shift_state: f32, bf16 or f16");
    need_float(weights.mu, "mu: f32, bf16 or f16");
  }
  TokenShiftMixOp(const fk_host& host, const op::init& init, const op::weights& weights)
      : init_(init), weights_(weights), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    TokenShift a{};
    a.x = args.x->data, a.mu = weights_.mu->data;
    a.out = args.out->data, a.state = args.shift_state->data;
    a.channels = init_.channels, a.mixtures = init_.mixtures, a.tokens = args.x->shape[0];
    a.x_token = args.x->strides[0], a.state_slot = args.shift_state->strides[0];
    a.type = type_of(args.x), a.mu_type = type_of(weights_.mu);
    a.state_type = type_of(args.shift_state);
    const int32_t *starts = data<int32_t>(args.cu_seqlens),
                  *slots = data<int32_t>(args.state_slots);
    const int32_t* has_state = data<int32_t>(args.has_initial_state);
    const int64_t tiles = (init_.channels + kShiftTile - 1) / kShiftTile;
    share(threads_, args.state_slots->shape[0] * tiles, 2 * args.out->nbytes,
          [&](int64_t item, int) {
            const int64_t b = item / tiles, begin = item % tiles * kShiftTile;
            if (starts[b] < starts[b + 1])
              kernel_(a, starts[b], starts[b + 1], slots[b], has_state && has_state[b] == 0, begin,
                      std::min(init_.channels, begin + kShiftTile));
          });
  }

 private:
  const op::init& init_;
  const op::weights& weights_;
  const int threads_;
  decltype(&generic::token_shift_tile) kernel_ = FK_CPU_PICK(token_shift_tile);
};
FK_OP(token_shift_mix, TokenShiftMixOp);

}  // namespace fk::cpu
#endif
