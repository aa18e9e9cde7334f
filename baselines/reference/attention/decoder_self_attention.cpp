// SPDX-License-Identifier: Apache-2.0
// decoder_self_attention: SelfAttentionOf (decoder.hpp) for this op's fields.
#include "fk/ops/decoder_self_attention.h"
#include "decoder.hpp"

namespace fk::reference {
namespace {

using DecoderSelfAttention = SelfAttentionOf<decoder_self_attention>;
FK_OP(decoder_self_attention, DecoderSelfAttention);

}  // namespace
}  // namespace fk::reference
