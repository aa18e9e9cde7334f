// SPDX-License-Identifier: Apache-2.0
// Cuts attention over requests into tasks (attention.hpp) and shares them among threads. A task is
// a block of query tokens of one request times one key/value head.
#pragma once
#include "attention.hpp"
#include "op.hpp"

namespace fk::cpu {

// A block of query tokens. AttentionTasks keeps a list of them in scratch.
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

  // Runs all tasks of requests given by cu_seqlens and seq_lens. make(start, keys, request, first,
  // tokens, kv_head) returns the AttentionTask. `start` points to the request's entry of
  // cu_seqlens; `keys` is the length of its context.
  template <class Args, class Make>
  void run_paged(const Args& args, void* scratch, const Make& make) const {
    const auto* starts = data<int32_t>(args.cu_seqlens);
    const auto* lengths = data<int32_t>(args.seq_lens);
    const int64_t requests = args.seq_lens->shape[0];
    int64_t keys = 0;
    for (int64_t b = 0; b < requests; ++b) keys += lengths[b];
    run(starts, requests, keys, scratch,
        [&](int64_t request, int64_t first, int64_t tokens, int64_t head) {
          return make(starts + request, int64_t{lengths[request]}, request, first, tokens, head);
        });
  }

  // Runs all tasks. make(request, first, tokens, kv_head) returns the AttentionTask for tokens
  // [first, first + tokens) of the request. Request b has the query tokens from starts[b] to
  // starts[b + 1]. `keys` is the number of keys of all requests. `scratch` has scratch_bytes().
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
    // An estimate: each task reads the keys of an average request, for every head of its group.
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

// Refuses dtypes that the kernel does not read, and states the scratch of AttentionTasks.
template <class Init, class Forward>
void need_paged(const Init& init, const Forward& max, fk_need& need) {
  need_float(max.q, "q: f32, bf16 or f16");
  need_float(max.k_cache, "k_cache: f32, bf16 or f16");
  need_float(max.v_cache, "v_cache: f32, bf16 or f16");
  need_float(max.out, "out: f32, bf16 or f16");
  need.scratch = AttentionTasks::scratch_bytes(max.q->shape[0], max.seq_lens->shape[0],
                                               init.num_heads, init.num_kv_heads, init.head_dim);
}

// A task with q and out of queries [first, first + tokens) of a request with `keys` keys. The
// caller fills in the keys' addresses, window, causal and mask.
template <class Init, class Forward>
AttentionTask query_task(const Init& init, const Forward& args, const int32_t* start, int64_t keys,
                         int64_t first, int64_t tokens, int64_t head) {
  AttentionTask a{};
  a.group = init.num_heads / init.num_kv_heads;
  a.width = a.q_width = a.v_width = init.head_dim;
  a.tokens = tokens;
  a.keys = keys;
  a.position = keys - (start[1] - start[0]) + first;
  a.scale = static_cast<float>(init.scale);
  a.q_type = type_of(args.q);
  a.out_type = type_of(args.out);
  a.q_token_stride = args.q->strides[0];
  a.q_head_stride = args.q->strides[1];
  a.out_token_stride = args.out->strides[0];
  a.out_head_stride = args.out->strides[1];
  const int64_t token = start[0] + first, head0 = head * a.group;
  a.q = data<char>(args.q) +
        (token * a.q_token_stride + head0 * a.q_head_stride) * bytes_of(a.q_type);
  a.out = data<char>(args.out) +
          (token * a.out_token_stride + head0 * a.out_head_stride) * bytes_of(a.out_type);
  return a;
}

// A query_task() whose keys lie in k_cache and v_cache, [pages, slots, kv_heads, width]. The caller
// fills in window, causal, mask, sinks and softcap.
template <class Init, class Forward>
AttentionTask paged_task(const Init& init, const Forward& args, const int32_t* start, int64_t keys,
                         int64_t request, int64_t first, int64_t tokens, int64_t head) {
  AttentionTask a = query_task(init, args, start, keys, first, tokens, head);
  a.k_type = type_of(args.k_cache);
  a.v_type = type_of(args.v_cache);
  a.pages = data<int32_t>(args.block_tables) + request * args.block_tables->strides[0];
  a.page_size = init.page_size;
  a.k = data<char>(args.k_cache) + head * args.k_cache->strides[2] * bytes_of(a.k_type);
  a.v = data<char>(args.v_cache) + head * args.v_cache->strides[2] * bytes_of(a.v_type);
  a.k_page_stride = args.k_cache->strides[0];
  a.k_slot_stride = args.k_cache->strides[1];
  a.v_page_stride = args.v_cache->strides[0];
  a.v_slot_stride = args.v_cache->strides[1];
  return a;
}

}  // namespace fk::cpu
