// SPDX-License-Identifier: Apache-2.0
// The kernel of causal_conv1d and causal_conv1d_update, and the class that both ops derive from.
// The kernel takes a tile of channels of one request; the inputs of its last tokens stay in
// registers from token to token.
#pragma once
#include "level.hpp"

namespace fk::cpu {
struct CausalConv {
  // Arguments of one call. `state` [slots, taps - 1, channels] has the last inputs of each request.
  const void* x;
  void *out, *state;
  const float* weight;  // [U,C]; the bias follows: [C]
  int64_t channels, taps;
  int64_t x_stride, out_stride, slot_stride, row_stride;  // in elements
  bool silu;
  int type, state_type;
};
inline constexpr int64_t kConvTile = 128;  // channels of one work item
inline constexpr int64_t kConvTaps = 5;    // most taps of the kernel's window
}  // namespace fk::cpu
// Packs weight [channels, taps] and bias [channels], of the same type, into CausalConv::weight. A
// null bias gives zeros.
FK_CPU_KERNEL(pack_conv, const void* weight, const void* bias, int type, int64_t channels,
              int64_t taps, float* packed)
// Tokens [first, last) of a request, channels [begin, end). If `fresh`, the state counts as zeros.
FK_CPU_KERNEL(causal_conv, const CausalConv&, int64_t first, int64_t last, int64_t slot, bool fresh,
              int64_t begin, int64_t end)

#ifdef FK_CPU_OPS
#include "op.hpp"

namespace fk::cpu {

// The base of both ops. They differ in how they find a request's tokens.
template <class Op>
class CausalConvOp {
 public:
  using op = Op;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const typename op::init& init, const typename op::weights& weights,
                       const typename op::forward& max, fk_need& need) {
    need_float(max.x, "x: f32, bf16 or f16");
    need_same(max.x, max.out, "out: of x's type");
    need_float(max.conv_state, "conv_state: f32, bf16 or f16");
    need_float(weights.weight, "weight: f32, bf16 or f16");
    if (init.kernel_size > kConvTaps) throw unsupported{"kernel_size: at most 5"};
    need.packed = (init.kernel_size + 1) * init.channels * 4;
  }
  CausalConvOp(const fk_host& host, const typename op::init& init,
               const typename op::weights& weights)
      : init_(init), weights_(weights), threads_(threads_of(host)) {}
  void prepare(const typename op::forward&, const fk_memory& memory) {
    packed_ = static_cast<const float*>(memory.packed);
    if (memory.packed_ready) return;
    pack_(weights_.weight->data, data<void>(weights_.bias), type_of(weights_.weight),
          init_.channels, init_.kernel_size, static_cast<float*>(memory.packed));
  }

 protected:
  // tokens(request, first, last, fresh) sets the last three: the request's tokens are [first,
  // last).
  template <class Tokens>
  void run(const typename op::forward& args, bool silu, const Tokens& tokens) const {
    const CausalConv a{args.x->data,
                       args.out->data,
                       args.conv_state->data,
                       packed_,
                       init_.channels,
                       init_.kernel_size,
                       args.x->strides[0],
                       args.out->strides[0],
                       args.conv_state->strides[0],
                       args.conv_state->strides[1],
                       silu,
                       type_of(args.x),
                       type_of(args.conv_state)};
    // 4 * nbytes below estimates the work: x, out, and as much again for the arithmetic.
    const int64_t tiles = (init_.channels + kConvTile - 1) / kConvTile;
    const int32_t* slots = data<int32_t>(args.state_slots);
    share(threads_, args.state_slots->shape[0] * tiles, 4 * args.out->nbytes,
          [&](int64_t item, int) {
            int64_t first = 0, last = 0;
            bool fresh = false;
            tokens(item / tiles, first, last, fresh);
            const int64_t begin = item % tiles * kConvTile;
            if (first < last) {
              kernel_(a, first, last, slots[item / tiles], fresh, begin,
                      std::min(init_.channels, begin + kConvTile));
            }
          });
  }

  const typename op::init& init_;

 private:
  const typename op::weights& weights_;
  const int threads_;
  const float* packed_ = nullptr;
  decltype(&generic::pack_conv) pack_ = FK_CPU_PICK(pack_conv);
  decltype(&generic::causal_conv) kernel_ = FK_CPU_PICK(causal_conv);
};

}  // namespace fk::cpu
#endif
