// SPDX-License-Identifier: Apache-2.0
// Gradients, and the step of a clipped descent. Rows by blocks, with sums in double:
// cross_entropy_backward, rms_norm_backward. One thread per element: silu_and_mul_backward,
// linear_input_grad, linear_weight_grad. attention_varlen_backward: one thread for each query and
// head, then one for each key and head.
#include "common.cuh"
#include "fk/ops/attention_varlen_backward.h"
#include "fk/ops/clipped_sgd_step.h"
#include "fk/ops/cross_entropy_backward.h"
#include "fk/ops/linear_input_grad.h"
#include "fk/ops/linear_weight_grad.h"
#include "fk/ops/rms_norm_backward.h"
#include "fk/ops/silu_and_mul_backward.h"

namespace {
using namespace fkr;

struct CrossEntropyBackward : Plain<fk::cross_entropy_backward> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref logits = ref(a.logits), out = ref(a.out);
    const auto* targets = fk::data<int64_t>(a.targets);
    const auto* grad = fk::data<float>(a.grad);
    const int64_t width = init.vocab_size;
    for_rows(a.logits->shape[0], kManyThreads, 0, ctx, [=] __device__(int64_t t) {
      const int64_t row = t * width;
      double top = -INFINITY, sum = 0;
      for (int64_t v = threadIdx.x; v < width; v += blockDim.x)
        top = fmax(top, load(logits, row + v));
      top = block_max(top);
      for (int64_t v = threadIdx.x; v < width; v += blockDim.x)
        sum += exp(load(logits, row + v) - top);
      sum = block_sum(sum);
      for (int64_t v = threadIdx.x; v < width; v += blockDim.x)
        store(
            out, row + v,
            double(grad[t]) * (exp(load(logits, row + v) - top) / sum - (v == targets[t] ? 1 : 0)));
    });
  }
};
struct RmsNormBackward : Plain<fk::rms_norm_backward> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), grad = ref(a.grad), weight = ref(weights.weight), out = ref(a.out);
    const int64_t width = init.hidden_size;
    const double eps = init.eps;
    for_rows(a.x->shape[0], ctx, [=] __device__(int64_t t) {
      const int64_t row = t * width;
      double squares = 0, along = 0;
      for (int64_t c = threadIdx.x; c < width; c += blockDim.x) {
        const double v = load(x, row + c);
        squares += v * v;
        along += v * load(grad, row + c) * load_or(weight, c, 1);
      }
      squares = block_sum(squares);
      along = block_sum(along);
      const double scale = 1 / sqrt(squares / double(width) + eps),
                   share = scale * scale * along / double(width);
      for (int64_t c = threadIdx.x; c < width; c += blockDim.x)
        store(out, row + c,
              scale * (load(grad, row + c) * load_or(weight, c, 1) - load(x, row + c) * share));
    });
  }
};
struct SiluAndMulBackward : Plain<fk::silu_and_mul_backward> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), grad = ref(a.grad), out = ref(a.out);
    const int64_t width = init.size;
    for_each(a.x->shape[0] * width, ctx, [=] __device__(int64_t i) {
      const int64_t at = i / width * 2 * width + i % width;
      const double gate = load(x, at), up = load(x, at + width), g = load(grad, i),
                   s = 1 / (1 + exp(-gate));
      store(out, at, g * up * s * (1 + gate * (1 - s)));
      store(out, at + width, g * gate * s);
    });
  }
};
struct LinearInputGrad : Plain<fk::linear_input_grad> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref grad = ref(a.grad), weight = ref(a.weight), out = ref(a.out);
    const int64_t rows = init.out_features, width = init.in_features;
    for_each(a.grad->shape[0] * width, ctx, [=] __device__(int64_t i) {
      const int64_t m = i / width, k = i % width;
      double sum = 0;
      for (int64_t n = 0; n < rows; ++n)
        sum += load(grad, m * rows + n) * load(weight, n * width + k);
      store(out, i, sum);
    });
  }
};
struct LinearWeightGrad : Plain<fk::linear_weight_grad> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), grad = ref(a.grad), out = ref(a.out);
    const int64_t count = a.x->shape[0], rows = init.out_features, width = init.in_features;
    for_each(rows * width, ctx, [=] __device__(int64_t i) {
      const int64_t n = i / width, k = i % width;
      double sum = 0;
      for (int64_t m = 0; m < count; ++m) sum += load(grad, m * rows + n) * load(x, m * width + k);
      store(out, i, sum);
    });
  }
};

// Scratch has a row of squares of each block, then one number: the length of the step.
struct ClippedSgdStep : Plain<fk::clipped_sgd_step> {
  using Plain::Plain;
  static constexpr int64_t kParts = 256;  // parts of a tensor, each summed by a block
  static void supports(const op::init& init, const op::weights&, const op::forward&,
                       fk_need& need) {
    need.scratch = (init.num_tensors * kParts + 1) * 8;
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    auto* squares = static_cast<double*>(ctx.scratch);
    const int64_t sums = init.num_tensors * kParts;
    double* step = squares + sums;
    for (int64_t k = 0; k < init.num_tensors; ++k) {
      const Ref grad = ref(a.grad->at[k]);
      const int64_t count = a.grad->at[k]->shape[0], part = (count + kParts - 1) / kParts;
      for_rows(kParts, ctx, [=] __device__(int64_t p) {
        double sum = 0;
        for (int64_t i = p * part + threadIdx.x; i < min(count, (p + 1) * part); i += blockDim.x)
          sum += load(grad, i) * load(grad, i);
        sum = block_sum(sum);
        if (threadIdx.x == 0) squares[k * kParts + p] = sum;
      });
    }
    const double lr = init.lr, most = init.max_norm, eps = init.eps;
    for_rows(1, ctx, [=] __device__(int64_t) {
      double sum = 0;
      for (int64_t i = threadIdx.x; i < sums; i += blockDim.x) sum += squares[i];
      const double norm = sqrt(block_sum(sum)) + eps;
      if (threadIdx.x == 0) *step = lr * (norm > most ? most / norm : norm * 0 + 1);
    });
    for (int64_t k = 0; k < init.num_tensors; ++k) {
      const Ref grad = ref(a.grad->at[k]), weight = ref(a.weight->at[k]);
      for_each(a.grad->at[k]->shape[0], ctx, [=] __device__(int64_t i) {
        store(weight, i, load(weight, i) - *step * load(grad, i));
      });
    }
  }
};

// The keys [from, to) which query t of request b sees, counted from the request's first key.
struct Seen {
  const int32_t *queries, *keys;
  int64_t count, window;
  bool causal;
  // The last request which starts at a row or before.
  __device__ int64_t request(const int32_t* starts, int64_t row) const {
    int64_t b = 0, end = count;
    while (b + 1 < end) {
      const int64_t middle = (b + end) / 2;
      if (starts[middle] <= row)
        b = middle;
      else
        end = middle;
    }
    return b;
  }
  __device__ int64_t self(int64_t b, int64_t t) const {
    return keys[b + 1] - keys[b] - queries[b + 1] + t;
  }
  __device__ int64_t from(int64_t b, int64_t t) const {
    return window > 0 ? max(self(b, t) - window + 1, int64_t{0}) : 0;
  }
  __device__ int64_t to(int64_t b, int64_t t) const {
    int64_t end = keys[b + 1] - keys[b];
    if (window > 0) end = min(end, self(b, t) + window);
    return causal ? min(end, self(b, t) + 1) : end;
  }
};
// The tensors which give a score its weight and gradient.
struct Scores {
  Ref q, k, v, grad;
  double*
      of_query;  // [queries, heads, 3]: largest score, sum of exponentials, mean product by weight
  int64_t heads, width;
  double scale;
  __device__ double score(int64_t t, int64_t h, int64_t key, int64_t g) const {
    double sum = 0;
    for (int64_t c = 0; c < width; ++c) sum += load(q, q.at(t, h) + c) * load(k, k.at(key, g) + c);
    return sum * scale;
  }
  __device__ double product(int64_t t, int64_t h, int64_t key, int64_t g) const {
    double sum = 0;
    for (int64_t c = 0; c < width; ++c)
      sum += load(grad, (t * heads + h) * width + c) * load(v, v.at(key, g) + c);
    return sum;
  }
  // The weight of a key, and the gradient of the product of query and key.
  __device__ void weigh(int64_t t, int64_t h, int64_t key, int64_t g, double& weight,
                        double& of_score) const {
    const double* stats = of_query + (t * heads + h) * 3;
    weight = exp(score(t, h, key, g) - stats[0]) / stats[1];
    of_score = scale * weight * (product(t, h, key, g) - stats[2]);
  }
};

// One thread for each query and head, then one for each key and its head, which weighs the pairs
// again. Both add up in scratch.
struct AttentionVarlenBackward : Plain<fk::attention_varlen_backward> {
  using Plain::Plain;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    if (init.num_heads % init.num_kv_heads)
      throw fk::unsupported{"num_heads is not a multiple of num_kv_heads"};
    need.scratch =
        8 * (3 * max.q->shape[0] * init.num_heads + fk_numel(max.q) + 2 * fk_numel(max.k));
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Seen seen{fk::data<int32_t>(a.cu_seqlens_q), fk::data<int32_t>(a.cu_seqlens_k),
                    a.cu_seqlens_q->shape[0] - 1, init.window, init.causal != 0};
    auto* stats = static_cast<double*>(ctx.scratch);
    const Scores scores{ref(a.q), ref(a.k),       ref(a.v),      ref(a.grad),
                        stats,    init.num_heads, init.head_dim, init.scale};
    double* sums = stats + 3 * a.q->shape[0] * init.num_heads;
    of_queries(a, seen, scores, sums, ctx);
    of_keys(a, seen, scores, sums + fk_numel(a.q), ctx);
  }
  // Public, as nvcc asks of functions with device lambdas.
  void of_queries(const op::forward& a, const Seen& seen, const Scores& scores, double* sums,
                  const fk_ctx& ctx) const {
    const Ref k = scores.k, dq = ref(a.dq);
    const int64_t heads = init.num_heads, group = heads / init.num_kv_heads, width = init.head_dim;
    for_each(a.q->shape[0] * heads, ctx, [=] __device__(int64_t row) {
      const int64_t t = row / heads, h = row % heads, g = h / group,
                    b = seen.request(seen.queries, t), first = seen.keys[b];
      const int64_t from = seen.from(b, t), to = seen.to(b, t);
      double top = -INFINITY, sum = 0, mean = 0;
      for (int64_t j = from; j < to; ++j) {
        const double score = scores.score(t, h, first + j, g), higher = fmax(top, score);
        const double shrink = exp(top - higher), weight = exp(score - higher);
        sum = sum * shrink + weight;
        mean = mean * shrink + weight * scores.product(t, h, first + j, g);
        top = higher;
      }
      double *stats = scores.of_query + row * 3, *own = sums + row * width;
      stats[0] = top, stats[1] = sum, stats[2] = mean / sum;
      for (int64_t c = 0; c < width; ++c) own[c] = 0;
      for (int64_t j = from; j < to; ++j) {
        double weight, of_score;
        scores.weigh(t, h, first + j, g, weight, of_score);
        for (int64_t c = 0; c < width; ++c) own[c] += of_score * load(k, k.at(first + j, g) + c);
      }
      for (int64_t c = 0; c < width; ++c) store(dq, row * width + c, own[c]);
    });
  }
  void of_keys(const op::forward& a, const Seen& seen, const Scores& scores, double* sums,
               const fk_ctx& ctx) const {
    const Ref q = scores.q, grad = scores.grad, dk = ref(a.dk), dv = ref(a.dv);
    const int64_t heads = init.num_heads, kv_heads = init.num_kv_heads, group = heads / kv_heads,
                  width = init.head_dim;
    double* of_values = sums + fk_numel(a.k);
    for_each(a.k->shape[0] * kv_heads, ctx, [=] __device__(int64_t row) {
      const int64_t key = row / kv_heads, g = row % kv_heads, b = seen.request(seen.keys, key),
                    j = key - seen.keys[b];
      double *of_key = sums + row * width, *of_value = of_values + row * width;
      for (int64_t c = 0; c < width; ++c) of_key[c] = of_value[c] = 0;
      for (int64_t t = seen.queries[b]; t < seen.queries[b + 1]; ++t) {
        if (j < seen.from(b, t) || j >= seen.to(b, t)) continue;
        for (int64_t h = g * group; h < (g + 1) * group; ++h) {
          double weight, of_score;
          scores.weigh(t, h, key, g, weight, of_score);
          for (int64_t c = 0; c < width; ++c) {
            of_key[c] += of_score * load(q, q.at(t, h) + c);
            of_value[c] += weight * load(grad, (t * heads + h) * width + c);
          }
        }
      }
      for (int64_t c = 0; c < width; ++c) {
        store(dk, row * width + c, of_key[c]);
        store(dv, row * width + c, of_value[c]);
      }
    });
  }
};

FK_OP(cross_entropy_backward, CrossEntropyBackward);
FK_OP(rms_norm_backward, RmsNormBackward);
FK_OP(silu_and_mul_backward, SiluAndMulBackward);
FK_OP(linear_input_grad, LinearInputGrad);
FK_OP(linear_weight_grad, LinearWeightGrad);
FK_OP(clipped_sgd_step, ClippedSgdStep);
FK_OP(attention_varlen_backward, AttentionVarlenBackward);

}  // namespace
