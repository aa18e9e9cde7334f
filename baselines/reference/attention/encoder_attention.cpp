// SPDX-License-Identifier: Apache-2.0
// encoder_attention: attend_encoder() of encoder.hpp without a norm before it.
#define FK_ENCODER_ATTENTION_EDITION 2  // with the field that the contract marks `since: 2`
#include "fk/ops/encoder_attention.h"
#include "encoder.hpp"

namespace fk::reference {
namespace {

struct EncoderAttention : Base<encoder_attention> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(weights.qkv, weights.qkv_bias.or_null, weights.o, weights.o_bias.or_null, max.x,
                max.out);
    need_odd_rows(weights.distance_bias.or_null);
    need.scratch = scratch_bytes<EncoderRows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const EncoderRows rows(scratch, init, args);
    attend_encoder(
        init, weights, args, rows, [](double*) {},
        [&](int64_t t, const double* attended) {
          store(args.out, offset(args.out, t), init.hidden_size, attended);
        });
  }
};
FK_OP(encoder_attention, EncoderAttention);

}  // namespace
}  // namespace fk::reference
