// SPDX-License-Identifier: Apache-2.0
// Softmax attention of one task: a block of query rows that share one key/value head. Keys lie in
// pages of a KV cache or in one row of memory. The attention ops cut their work into such tasks
// (attention_tasks.hpp); the kernel in attention.cpp keeps a running maximum and sum (online
// softmax).
#pragma once
#include "level.hpp"

namespace fk::cpu {

// Keys per step of the running softmax.
inline constexpr int64_t kKeyBlock = 64;
// Most query rows of a task (tokens * heads of the group), unless one token alone has more heads.
inline constexpr int64_t kQueryRows = 64;

// One task. A group is the query heads that share a key/value head. Row r is token r / group and
// head r % group of the group. Strides are in elements, types are Types of op.hpp.
struct AttentionTask {
  const void* q;  // the first token and head of the block
  void* out;
  int64_t q_token_stride, q_head_stride, out_token_stride, out_head_stride;
  int64_t tokens, group, width;  // width: D of queries and keys
  int64_t v_width;               // of values and out; at most width
  int64_t q_width;               // columns of q; columns q_width to width are in q_tail
  const void* q_tail;
  int64_t q_tail_token_stride, q_tail_head_stride;
  int64_t position;    // of the first token; if causal, token i sees keys up to position + i
  int64_t keys;        // their number
  int64_t window;      // a token does not see keys at this distance or further; 0: no limit
  const float* sinks;  // [group] or null
  // [group] or null: a score grows by its head's slope times (key position - query position). This
  // difference is negative for keys before the query.
  const float* slopes;
  // Rows of `distance_stride` elements, whose first `group` elements belong to this task's heads;
  // or null. A score grows by the row distance_rows / 2 + (key position - query position), or by
  // the nearest row.
  const float* distances;
  int64_t distance_rows, distance_stride;
  // A tree of draft tokens: of the keys from tree_first on, token i sees key tree_first + j if
  // mask[i * mask_stride + j] is not 0. Null: token i sees them all.
  const int32_t* mask;
  int64_t mask_stride, tree_first;
  // Added to the scores of [head of the group, row, key]; token i has row (first + i) % rows. Null:
  // none.
  struct Bias {
    const void* at;
    int64_t head_stride, row_stride, first, rows;
    int type;
  } biases[2];
  const void *k, *v;  // this head in slot 0 of page 0
  // entry j: page of keys [j * page_size, (j + 1) * page_size); null: all keys lie in page 0
  const int32_t* pages;
  int64_t page_size, k_page_stride, k_slot_stride, v_page_stride, v_slot_stride;
  float scale, softcap;      // softcap 0: none
  const float* head_scales;  // [group], factors of scale, or null
  int causal, q_type, k_type, v_type, out_type;
};

// Floats of working memory for a task. Sizes are rounded up to 16 lanes, the widest level
// (level.hpp).
inline constexpr int64_t attention_floats(int64_t rows, int64_t width) {
  const int64_t r = (rows + 15) / 16 * 16, d = (width + 15) / 16 * 16;
  return d * r + kKeyBlock * r + 2 * kKeyBlock * d + r * d + 5 * r;
}

}  // namespace fk::cpu
FK_CPU_KERNEL(attention_task, const AttentionTask&, float* work)
