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

  // Over requests with cu_seqlens and seq_lens: make(start, keys, request, first, tokens, kv_head),
  // where `start` points to the request's entry of cu_seqlens and `keys` is the length of its
  // context.
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

// Refuses what the tasks below do not take, and asks for their scratch.
template <class Init, class Forward>
void need_paged(const Init& init, const Forward& max, fk_need& need) {
  need_float(max.q, "q: f32, bf16 or f16");
  need_float(max.k_cache, "k_cache: f32, bf16 or f16");
  need_float(max.v_cache, "v_cache: f32, bf16 or f16");
  need_float(max.out, "out: f32, bf16 or f16");
  need.scratch = AttentionTasks::scratch_bytes(max.q->shape[0], max.seq_lens->shape[0],
                                               init.num_heads, init.num_kv_heads, init.head_dim);
}

// What a task of queries [first, first + tokens) of a request with so many keys has of q and out;
// where the keys lie and who sees what are the caller's.
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

// The same over k_cache and v_cache [P,Z,G,D]; window, causal, mask, sinks and softcap are the
// caller's.
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
