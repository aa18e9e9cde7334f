// SPDX-License-Identifier: Apache-2.0
// Softmax attention of a block of query rows that share one key/value head, over keys that lie in
// pages or in a row. Both attention ops cut their work into such tasks.
#pragma once
#include "level.hpp"

namespace fk::cpu {

// Keys per step of the running softmax.
inline constexpr int64_t kKeyBlock = 64;
// Query rows (tokens * heads of the group) per task, unless one token has more heads than this.
inline constexpr int64_t kQueryRows = 64;

// Strides are in elements. Row r is token r / group and head r % group of the group.
struct AttentionTask {
  const void* q;  // the first token and head of the block
  void* out;
  int64_t q_token_stride, q_head_stride, out_token_stride, out_head_stride;
  int64_t tokens, group, width;  // width: D of queries and keys
  int64_t v_width;               // of values and out; at most width
  int64_t q_width;               // the columns of q; those from there to width are in q_tail
  const void* q_tail;
  int64_t q_tail_token_stride, q_tail_head_stride;
  int64_t position;    // of the first token; if causal, token i sees keys up to position + i
  int64_t keys;        // how many there are
  int64_t window;      // keys at this distance or further are not seen; 0: all are
  const float* sinks;  // [group] or null
  // Of the keys from tree_first on, token i sees only key tree_first + j where mask[i * mask_stride
  // + j] is not 0. Null: it sees them all.
  const int32_t* mask;
  int64_t mask_stride, tree_first;
  const void *k, *v;     // this head in slot 0 of page 0
  const int32_t* pages;  // page number of every page_size keys; null: all keys lie in page 0
  int64_t page_size, k_page_stride, k_slot_stride, v_page_stride, v_slot_stride;
  float scale, softcap;  // softcap 0: none
  int causal, q_type, k_type, v_type, out_type;
};

// Floats of working memory that a task needs. Padding is for the widest level.
inline constexpr int64_t attention_floats(int64_t rows, int64_t width) {
  const int64_t r = (rows + 15) / 16 * 16, d = (width + 15) / 16 * 16;
  return d * r + kKeyBlock * r + 2 * kKeyBlock * d + r * d + 4 * r;
}

}  // namespace fk::cpu
FK_CPU_KERNEL(attention_task, const AttentionTask&, float* work)
