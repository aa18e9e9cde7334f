// SPDX-License-Identifier: Apache-2.0
// Cuts attention over requests into tasks: blocks of query tokens of a request times key/value
// heads.
#pragma once
#include "attention.hpp"
#include "op.hpp"

namespace fk::cpu {

// Lives in scratch: one entry per block of query tokens.
struct QueryBlock {
  int32_t request, first, tokens, reserved;  // first: token within the request
};

class AttentionTasks {
 public:
  AttentionTasks(int64_t heads, int64_t kv_heads, int64_t width, int threads)
      : kv_heads_(kv_heads), group_(heads / kv_heads), width_(width), threads_(threads) {}

  static int64_t scratch_bytes(int64_t tokens, int64_t requests, int64_t heads, int64_t kv_heads,
                               int64_t width) {
    const int64_t group = heads / kv_heads;
    return threads_max() * padded(attention_floats(block_tokens(group) * group, width)) * 4 +
           blocks_max(tokens, requests, group) * static_cast<int64_t>(sizeof(QueryBlock));
  }

  // make(request, first, tokens, kv_head) describes a task; `keys` is the number of keys of all
  // requests.
  template <class Make>
  void run(const int32_t* starts, int64_t requests, int64_t keys, void* scratch,
           const Make& make) const {
    const int64_t floats = padded(attention_floats(block_tokens(group_) * group_, width_));
    auto* work = static_cast<float*>(scratch);
    auto* blocks = reinterpret_cast<QueryBlock*>(work + threads_max() * floats);
    const int64_t step = block_tokens(group_);
    int64_t count = 0;
    for (int64_t b = 0; b < requests; ++b) {
      // The last tokens see the most keys, so they come first.
      const int64_t tokens = starts[b + 1] - starts[b];
      for (int64_t first = (tokens - 1) / step * step; tokens > 0 && first >= 0; first -= step) {
        blocks[count++] = {static_cast<int32_t>(b), static_cast<int32_t>(first),
                           static_cast<int32_t>(std::min(step, tokens - first)), 0};
      }
    }
    const int64_t bytes =
        count * kv_heads_ * (requests > 0 ? keys / requests : 0) * width_ * group_;
    share(threads_, count * kv_heads_, bytes, [&](int64_t item, int thread) {
      const QueryBlock& q = blocks[item / kv_heads_];
      kernel_(make(q.request, q.first, q.tokens, item % kv_heads_), work + thread * floats);
    });
  }

 private:
  static int64_t block_tokens(int64_t group) { return std::max<int64_t>(1, kQueryRows / group); }
  static int64_t blocks_max(int64_t tokens, int64_t requests, int64_t group) {
    return tokens / block_tokens(group) + requests + 1;
  }

  const int64_t kv_heads_, group_, width_;
  const int threads_;
  decltype(&generic::attention_task) kernel_ = FK_CPU_PICK(attention_task);
};

}  // namespace fk::cpu
