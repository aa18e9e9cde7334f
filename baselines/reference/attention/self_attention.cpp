// SPDX-License-Identifier: Apache-2.0
// self_attention: see decoder.hpp.
#define FK_SELF_ATTENTION_EDITION 2
#include "fk/ops/self_attention.h"
#include "decoder.hpp"

namespace fk::reference {
namespace {

using SelfAttention = SelfAttentionOf<self_attention>;
FK_OP(self_attention, SelfAttention);

}  // namespace
}  // namespace fk::reference
