// SPDX-License-Identifier: Apache-2.0
// indexer_scores: a task is a token and a block of keys. Four keys at a time are multiplied by
// every head, so that a head's channels are read once for them.
#include "simd.hpp"

namespace fk::cpu {
// Keys of a task.
inline constexpr int64_t kIndexKeys = 256;
// Strides are in elements, types are Types of op.hpp.
struct IndexTask {
  const void *q, *keys;
  const float* weights;  // [heads]
  float* out;            // of the first key
  const int32_t* pages;
  int64_t heads, width, q_head_stride, page_size, page_stride, slot_stride, first, count;
  float scale;
  int q_type, k_type;
};
}  // namespace fk::cpu
// `work`: [heads + 4, width], rows of whole vectors of 16 lanes.
FK_CPU_KERNEL(index_task, const IndexTask&, float* work)

namespace fk::cpu::FK_CPU_LEVEL {

template <class T>
FK_INLINE void widen_row(const T* from, int64_t width, int64_t room, float* to) {
  each_vector(width, [&](int64_t i, auto n) { store(to + i, load(from + i, n), n); });
  for (int64_t i = width; i < room; ++i) to[i] = 0;
}

template <class K>
void score_keys(const IndexTask& a, int64_t room, const float* q, float* keys) {
  for (int64_t j = 0; j < a.count; j += 4) {
    const int64_t here = a.count - j < 4 ? a.count - j : 4;
    for (int64_t i = 0; i < 4; ++i) {
      const int64_t position = a.first + j + (i < here ? i : 0);
      const K* key = static_cast<const K*>(a.keys) +
                     a.pages[position / a.page_size] * a.page_stride +
                     position % a.page_size * a.slot_stride;
      widen_row(key, a.width, room, keys + i * room);
    }
    float total[4] = {};
    for (int64_t h = 0; h < a.heads; ++h) {
      Vf dots[4] = {};
      for (int64_t d = 0; d < room; d += kLanes) {
        const Vf x = load(q + h * room + d);
        for (int64_t i = 0; i < 4; ++i) dots[i] += x * load(keys + i * room + d);
      }
      for (int64_t i = 0; i < 4; ++i) {
        const float dot = sum(dots[i]);
        total[i] += dot > 0 ? a.weights[h] * dot : 0.f;
      }
    }
    for (int64_t i = 0; i < here; ++i) a.out[j + i] = a.scale * total[i];
  }
}

void index_task(const IndexTask& a, float* work) {
  const int64_t room = (a.width + 15) / 16 * 16;
  with_type(a.q_type, [&]<class Q>() {
    for (int64_t h = 0; h < a.heads; ++h)
      widen_row(static_cast<const Q*>(a.q) + h * a.q_head_stride, a.width, room, work + h * room);
  });
  with_type(a.k_type, [&]<class K>() { score_keys<K>(a, room, work, work + a.heads * room); });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include <algorithm>

#include "fk/ops/indexer_scores.h"
#include "op.hpp"

namespace fk::cpu {

struct IndexerScoresOp {
  using op = fk::indexer_scores;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_float(max.q, "q: f32, bf16 or f16");
    need_float(max.k_cache, "k_cache: f32, bf16 or f16");
    need.scratch = threads_max() * floats_of(init) * 4;
  }
  IndexerScoresOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const auto *starts = data<int32_t>(args.cu_seqlens), *lengths = data<int32_t>(args.seq_lens);
    const int64_t requests = args.seq_lens->shape[0], columns = args.out->shape[1];
    const int64_t tokens = starts[requests], blocks = (columns + kIndexKeys - 1) / kIndexKeys;
    const int64_t bytes = tokens * columns * init_.num_heads * init_.head_dim / 2;
    share(threads_, tokens * blocks, bytes, [&](int64_t item, int thread) {
      const int64_t t = item / blocks, first = item % blocks * kIndexKeys;
      const int64_t b = std::upper_bound(starts, starts + requests + 1, t) - starts - 1;
      const int64_t seen = lengths[b] - starts[b + 1] + t + 1;
      const int64_t end = std::min(first + kIndexKeys, columns);
      IndexTask task = task_of(args, t, b);
      task.first = first;
      task.count = std::clamp<int64_t>(seen - first, 0, end - first);
      task.out = data<float>(args.out) + t * columns + first;
      kernel_(task, static_cast<float*>(ctx.scratch) + thread * floats_of(init_));
      std::fill(task.out + task.count, task.out + (end - first), -__builtin_inff());
    });
  }

 private:
  static int64_t floats_of(const op::init& init) {
    return (init.num_heads + 4) * padded(init.head_dim);
  }
  IndexTask task_of(const op::forward& args, int64_t t, int64_t b) const {
    IndexTask a{};
    a.q_type = type_of(args.q);
    a.k_type = type_of(args.k_cache);
    a.q = data<char>(args.q) + t * args.q->strides[0] * bytes_of(a.q_type);
    a.q_head_stride = args.q->strides[1];
    a.keys = args.k_cache->data;
    a.page_stride = args.k_cache->strides[0];
    a.slot_stride = args.k_cache->strides[1];
    a.weights = data<float>(args.head_weights) + t * init_.num_heads;
    a.pages = data<int32_t>(args.block_tables) + b * args.block_tables->strides[0];
    a.heads = init_.num_heads;
    a.width = init_.head_dim;
    a.page_size = init_.page_size;
    a.scale = static_cast<float>(init_.scale);
    return a;
  }

  const op::init& init_;
  const int threads_;
  decltype(&generic::index_task) kernel_ = FK_CPU_PICK(index_task);
};
FK_OP(indexer_scores, IndexerScoresOp);

}  // namespace fk::cpu
#endif
