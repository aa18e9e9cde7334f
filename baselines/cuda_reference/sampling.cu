// SPDX-License-Identifier: Apache-2.0
// sample_tokens, token_logprob, topk_logprobs, topk_rows, softmax: one block per row of logits.
#include "fk/ops/sample_tokens.h"
#include "fk/ops/softmax.h"
#include "fk/ops/token_logprob.h"
#include "fk/ops/topk_logprobs.h"
#include "fk/ops/topk_rows.h"
#include "selection.cuh"

namespace {
using namespace fkr;

struct SampleTokens : Plain<fk::sample_tokens> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref logits = ref(a.logits);
    const auto *temperature = fk::data<float>(a.temperature), *top_p = fk::data<float>(a.top_p), *uniform = fk::data<float>(a.uniform);
    const auto* top_k = fk::data<int32_t>(a.top_k);
    auto* tokens = fk::data<int64_t>(a.tokens);
    const int64_t width = init.vocab_size;
    for_rows(a.logits->shape[0], kManyThreads, 0, ctx, [=] __device__(int64_t b) {
      const int64_t base = b * width;
      uint64_t token = next_key(logits, base, width, ~uint64_t{0});
      if (temperature[b] > 0) {
        Row row{logits, base, width, load(logits, base + index_of(token)), temperature[b], true};
        uint64_t last = last_key(logits, base, width);
        if (top_k[b] > 0 && top_k[b] < width) last = row.first(top_k[b], false, last);
        row.counting = false;
        if (top_p[b] < 1) last = row.first(double(top_p[b]) * row.mass(last), false, last);
        token = row.first(double(uniform[b]) * row.mass(last), true, last);
      }
      if (threadIdx.x == 0) tokens[b] = index_of(token);
    });
  }
};
struct TokenLogprob : Plain<fk::token_logprob> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref logits = ref(a.logits);
    const auto* tokens = fk::data<int64_t>(a.tokens);
    auto* logprob = fk::data<float>(a.logprob);
    const int64_t width = init.vocab_size;
    for_rows(a.logits->shape[0], kManyThreads, 0, ctx, [=] __device__(int64_t b) {
      const Softmax all = softmax_of(logits, b * width, width);
      if (threadIdx.x == 0) logprob[b] = float(load(logits, b * width + tokens[b]) - all.most - log(all.sum));
    });
  }
};
struct TopkLogprobs : Plain<fk::topk_logprobs> {
  using Plain::Plain;
  // A power of two.
  static int64_t keys_of(const op::init& init) {
    int64_t keys = 1;
    while (keys < init.vocab_size) keys *= 2;
    return keys;
  }
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need& need) {
    if (init.top_k > init.vocab_size) throw fk::unsupported{"top_k exceeds the vocabulary"};
    need.scratch = max.logits->shape[0] * keys_of(init) * 8;
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref logits = ref(a.logits);
    const auto* offsets = fk::data<int64_t>(weights.offsets);
    auto* tokens = fk::data<int64_t>(a.tokens);
    auto* logprobs = fk::data<float>(a.logprobs);
    auto* scratch = static_cast<uint64_t*>(ctx.scratch);
    const int64_t width = init.vocab_size, count = init.top_k, many = keys_of(init);
    for_rows(a.logits->shape[0], kManyThreads, 0, ctx, [=] __device__(int64_t b) {
      const Softmax all = softmax_of(logits, b * width, width);
      uint64_t* const keys = scratch + b * many;
      // Every key of a row is larger than 0.
      for (int64_t i = threadIdx.x; i < many; i += blockDim.x) keys[i] = i < width ? key_of(load(logits, b * width + i), i) : 0;
      __syncthreads();
      sort_keys(keys, many);
      for (int64_t k = threadIdx.x; k < count; k += blockDim.x) {
        const int64_t i = index_of(keys[k]);
        tokens[b * count + k] = i + (offsets ? offsets[i] : 0);
        logprobs[b * count + k] = float(load(logits, b * width + i) - all.most - log(all.sum));
      }
    });
  }
};
struct TopkRows : Plain<fk::topk_rows> {
  using Plain::Plain;
  // A power of two.
  static int64_t keys_of(const op::init& init) {
    int64_t keys = 1;
    while (keys < init.size) keys *= 2;
    return keys;
  }
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need& need) {
    if (init.top_k > init.size) throw fk::unsupported{"top_k exceeds the size of a row"};
    if (max.x->shape[0] > INT32_MAX / init.size) throw fk::unsupported{"x: an element's place exceeds 31 bits"};
    need.scratch = max.x->shape[0] * keys_of(init) * 8;
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), values = ref(a.values);
    auto *ids = fk::data<int32_t>(a.ids), *rows = fk::data<int32_t>(a.rows);
    auto* scratch = static_cast<uint64_t*>(ctx.scratch);
    const int64_t width = init.size, count = init.top_k, many = keys_of(init);
    for_rows(a.x->shape[0], kManyThreads, 0, ctx, [=] __device__(int64_t t) {
      uint64_t* const keys = scratch + t * many;
      // Every key of a row is larger than 0.
      for (int64_t i = threadIdx.x; i < many; i += blockDim.x) keys[i] = i < width ? key_of(load(x, t * width + i), i) : 0;
      __syncthreads();
      sort_keys(keys, many);
      for (int64_t k = threadIdx.x; k < count; k += blockDim.x) {
        const int64_t i = index_of(keys[k]);
        ids[t * count + k] = static_cast<int32_t>(i);
        rows[t * count + k] = static_cast<int32_t>(t * width + i);
        store(values, t * count + k, load(x, t * width + i));
      }
    });
  }
};
struct SoftmaxRows : Plain<fk::softmax> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), out = ref(a.out);
    const int64_t width = init.size;
    for_rows(a.x->shape[0], ctx, [=] __device__(int64_t t) {
      const Softmax all = softmax_of(x, t * width, width);
      for (int64_t c = threadIdx.x; c < width; c += blockDim.x)
        store(out, t * width + c, exp(load(x, t * width + c) - all.most) / all.sum);
    });
  }
};
FK_OP(topk_rows, TopkRows);
FK_OP(softmax, SoftmaxRows);
FK_OP(sample_tokens, SampleTokens);
FK_OP(token_logprob, TokenLogprob);
FK_OP(topk_logprobs, TopkLogprobs);

}  // namespace
