// SPDX-License-Identifier: Apache-2.0
// wrong: a head reads key/value head h % groups
// hint: head_group
// says: heads 1 and 2 of 4 are wrong
// next: Index h of the heads reads index h / 2 of the key/value heads. The wrong ones are those for
// which h % 2 is another index.
#include "attention.hpp"

namespace {

struct Group : hints::Attention {
  using Attention::Attention;
  int64_t group_of(int64_t head) const override { return head % init.num_kv_heads; }
};
FK_OP(attention_varlen, Group);

}  // namespace
FK_PLUGIN("wrong_group", "0");
