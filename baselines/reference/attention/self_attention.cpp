// SPDX-License-Identifier: Apache-2.0
// self_attention: SelfAttentionOf (decoder.hpp) for this op's fields.
#define FK_SELF_ATTENTION_EDITION 2  // with the fields that the contract marks `since: 2`
#include "fk/ops/self_attention.h"
#include "decoder.hpp"

namespace fk::reference {
namespace {

using SelfAttention = SelfAttentionOf<self_attention>;
FK_OP(self_attention, SelfAttention);

}  // namespace
}  // namespace fk::reference
