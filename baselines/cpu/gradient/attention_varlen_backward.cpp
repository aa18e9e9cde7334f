// SPDX-License-Identifier: Apache-2.0
// attention_varlen_backward: a task is a request and a key/value head. It takes blocks of queries,
// whose five products run in the library, over float32 copies of the keys which the block sees.
#include "math.hpp"

namespace fk::cpu {
// The keys [begin, end) of a row which a query sees. Outside of them, weights and gradients are 0.
struct BackwardRow {
  float *scores, *products;  // become weights, and the gradients of scores
  int64_t count, begin, end;
  float scale;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(attention_backward_row, const BackwardRow&)

namespace fk::cpu::FK_CPU_LEVEL {

// v, with zeros in unused lanes.
FK_INLINE Vf keep(Vf v, Full) { return v; }
FK_INLINE Vf keep(Vf v, int64_t n) {
  float part[kLanes] = {};
  store_n(part, v, n);
  return load(part);
}

void attention_backward_row(const BackwardRow& a) {
  float *p = a.scores + a.begin, *d = a.products + a.begin;
  const int64_t seen = a.end - a.begin, whole = seen > 0 ? seen / kLanes * kLanes : 0;
  for (int64_t i = 0; i < a.begin; ++i) a.scores[i] = a.products[i] = 0;
  for (int64_t i = a.end > a.begin ? a.end : a.begin; i < a.count; ++i)
    a.scores[i] = a.products[i] = 0;
  if (seen <= 0) return;
  each_vector(seen, [&](int64_t i, auto n) { store(p + i, load(p + i, n) * a.scale, n); });
  Vf most = splat(-__builtin_inff());
  for (int64_t i = 0; i < whole; i += kLanes) most = max(load(p + i), most);
  float top = max(most);
  for (int64_t i = whole; i < seen; ++i) top = p[i] > top ? p[i] : top;
  // Sums of parts in float32, sums of these in double: gradients are differences from a mean.
  constexpr int64_t kPart = 32 * kLanes;
  double total = 0, product = 0;
  for (int64_t from = 0; from < seen; from += kPart) {
    Vf weights{}, means{};
    each_vector(seen - from < kPart ? seen - from : kPart, [&](int64_t i, auto n) {
      const Vf weight = keep(exp(load(p + from + i, n) - top), n);
      store(p + from + i, weight, n);
      weights += weight;
      means += weight * load(d + from + i, n);
    });
    total += static_cast<double>(sum(weights));
    product += static_cast<double>(sum(means));
  }
  const auto inverse = static_cast<float>(1 / total), mean = static_cast<float>(product / total);
  each_vector(seen, [&](int64_t i, auto n) {
    const Vf weight = load(p + i, n) * inverse;
    store(p + i, weight, n);
    store(d + i, weight * (load(d + i, n) - mean) * a.scale, n);
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include <utility>

#include "fk/ops/attention_varlen_backward.h"
#include "gemm.hpp"
#include "small_m.hpp"
#include "turned.hpp"

namespace fk::cpu {

struct AttentionVarlenBackwardOp {
  using op = fk::attention_varlen_backward;
  static constexpr fk_claims claims{FK_END(fk_claims, sm), FK_CPU,
                                    FK_GRAPH_ALWAYS,       /*deterministic=*/1,
                                    /*batch_invariant=*/0, FK_ACCUMULATE_F32,
                                    /*side_streams=*/0,    /*sm_count=*/0,
                                    /*sm=*/nullptr};

  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_float(max.q, "q: f32, bf16 or f16");
    if (init.num_heads % init.num_kv_heads)
      throw unsupported{"num_heads is not a multiple of num_kv_heads"};
    const int64_t tasks = (max.cu_seqlens_q->shape[0] - 1) * init.num_kv_heads;
    need.scratch = std::min<int64_t>(tasks, threads_max()) * Room(init, keys_of(max)).floats() * 4;
  }
  AttentionVarlenBackwardOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward& max, const fk_memory&) { keys_ = keys_of(max); }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t tasks = (args.cu_seqlens_q->shape[0] - 1) * init_.num_kv_heads;
    const Room room(init_, keys_);
    const int64_t work = 10 * args.q->shape[0] * init_.num_heads * init_.head_dim *
                         std::min(keys_, args.max_key_len) / 16;
    share(threads_, tasks, work, [&](int64_t task, int thread) {
      run(args, task / init_.num_kv_heads, task % init_.num_kv_heads, room,
          static_cast<float*>(ctx.scratch) + thread * room.floats());
    });
  }

 private:
  // Working memory of a task for at most `keys` keys.
  struct Room {
    int64_t keys, width, rows;  // rows: queries of a block
    Room(const op::init& init, int64_t n)
        : keys(padded(std::max<int64_t>(n, 1))),
          width(padded(init.head_dim)),
          rows(std::clamp<int64_t>(kPairs / keys, 1, kRows)) {}
    int64_t floats() const {
      return 6 * keys * width + 4 * padded(rows) * width + 3 * padded(rows) * keys;
    }
  };
  static constexpr int64_t kRows = 64;        // most queries of a block
  static constexpr int64_t kPairs = 1 << 19;  // of queries and keys of a block

  static int64_t keys_of(const op::forward& a) { return std::min(a.max_key_len, a.k->shape[0]); }

  struct Task {
    float *k, *k_turned, *v, *dk, *dv, *sums;  // [keys, width], k_turned [width, keys]
    float *q, *grad, *q_turned, *grad_turned;  // [rows, width], turned [width, rows]
    float *scores, *products, *turned;         // [rows, keys], turned [keys, rows]
    Task(const Room& room, float* at) {
      const auto take = [&](int64_t count) { return std::exchange(at, at + count); };
      for (float** p : {&k, &k_turned, &v, &dk, &dv, &sums}) *p = take(room.keys * room.width);
      for (float** p : {&q, &grad, &q_turned, &grad_turned})
        *p = take(padded(room.rows) * room.width);
      for (float** p : {&scores, &products, &turned}) *p = take(padded(room.rows) * room.keys);
    }
  };

  // Row `row` of head `head` of a view [rows, heads, width], as float32.
  template <class View>
  void read(const View* view, int64_t row, int64_t head, float* to) const {
    const int type = type_of(view);
    const char* from = static_cast<const char*>(view->data) +
                       (row * view->strides[0] + head * view->strides[1]) * bytes_of(type);
    convert_({from, to, nullptr, type, kF32, 0}, init_.head_dim);
  }
  void write(const fk_out* view, int64_t row, int64_t head, const float* from) const {
    const int type = type_of(view);
    char* to =
        data<char>(view) + (row * view->strides[0] + head * view->strides[1]) * bytes_of(type);
    convert_({from, to, nullptr, kF32, type, 0}, init_.head_dim);
  }

  void run(const op::forward& args, int64_t request, int64_t g, const Room& room,
           float* memory) const {
    const auto* starts = data<int32_t>(args.cu_seqlens_q) + request;
    const auto* key_starts = data<int32_t>(args.cu_seqlens_k) + request;
    const int64_t tokens = starts[1] - starts[0], keys = key_starts[1] - key_starts[0];
    const int64_t width = init_.head_dim, group = init_.num_heads / init_.num_kv_heads;
    const Task t(room, memory);
    for (int64_t j = 0; j < keys; ++j) {
      read(args.k, key_starts[0] + j, g, t.k + j * room.width);
      read(args.v, key_starts[0] + j, g, t.v + j * room.width);
    }
    std::fill_n(t.dk, keys * room.width, 0.f);
    std::fill_n(t.dv, keys * room.width, 0.f);
    turn(t.k, room.width, keys, 0, width, t.k_turned, room.keys);
    for (int64_t h = g * group; h < (g + 1) * group; ++h)
      for (int64_t first = 0; first < tokens; first += room.rows)
        block(args, t, room, starts[0], first, std::min(room.rows, tokens - first), keys - tokens,
              keys, h);
    for (int64_t j = 0; j < keys; ++j) {
      write(args.dk, key_starts[0] + j, g, t.dk + j * room.width);
      write(args.dv, key_starts[0] + j, g, t.dv + j * room.width);
    }
  }

  // Queries [first, first + count) of head h. Query i is at the position of key `before` + i.
  void block(const op::forward& args, const Task& t, const Room& room, int64_t start, int64_t first,
             int64_t count, int64_t before, int64_t keys, int64_t h) const {
    const int64_t width = init_.head_dim, w = room.width, rows = padded(room.rows);
    // The keys which some query of the block sees.
    const auto from = [&](int64_t i) {
      const int64_t self = before + i;
      return init_.window > 0 ? std::max<int64_t>(0, self - init_.window + 1) : int64_t{0};
    };
    const auto to = [&](int64_t i) {
      int64_t end = init_.window > 0 ? std::min(keys, before + i + init_.window) : keys;
      if (init_.causal) end = std::min(end, before + i + 1);
      return std::max<int64_t>(end, 0);
    };
    const int64_t low = std::min(from(first), keys), seen = to(first + count - 1) - low;
    for (int64_t i = 0; i < count; ++i) {
      read(args.q, start + first + i, h, t.q + i * w);
      read(args.grad, start + first + i, h, t.grad + i * w);
    }
    if (seen <= 0) {
      std::fill_n(t.q, width, 0.f);
      for (int64_t i = 0; i < count; ++i) write(args.dq, start + first + i, h, t.q);
      return;
    }
    sgemm_nt(count, seen, width, t.q, w, t.k + low * w, w, t.scores, room.keys);
    sgemm_nt(count, seen, width, t.grad, w, t.v + low * w, w, t.products, room.keys);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t begin = std::clamp<int64_t>(from(first + i) - low, 0, seen);
      row_({t.scores + i * room.keys, t.products + i * room.keys, seen, begin,
            std::clamp<int64_t>(to(first + i) - low, begin, seen),
            static_cast<float>(init_.scale)});
    }
    turn(t.q, w, count, 0, width, t.q_turned, rows);
    turn(t.grad, w, count, 0, width, t.grad_turned, rows);
    add(t, room, t.products, count, seen, t.q_turned, t.dk + low * w);
    add(t, room, t.scores, count, seen, t.grad_turned, t.dv + low * w);
    sgemm_nt(count, width, seen, t.products, room.keys, t.k_turned + low, room.keys, t.q, w);
    for (int64_t i = 0; i < count; ++i) write(args.dq, start + first + i, h, t.q + i * w);
  }

  // sums[seen, width] += shares[count, seen]^T rows[count, width], whose rows are transposed.
  void add(const Task& t, const Room& room, const float* shares, int64_t count, int64_t seen,
           const float* rows_turned, float* sums) const {
    const int64_t width = init_.head_dim, rows = padded(room.rows);
    turn(shares, room.keys, count, 0, seen, t.turned, rows);
    sgemm_nt(seen, width, count, t.turned, rows, rows_turned, rows, t.sums, room.width);
    for (int64_t j = 0; j < seen; ++j)
      for (int64_t c = 0; c < width; ++c) sums[j * room.width + c] += t.sums[j * room.width + c];
  }

  const op::init& init_;
  const int threads_;
  int64_t keys_ = 0;  // of the longest request
  decltype(&generic::attention_backward_row) row_ = FK_CPU_PICK(attention_backward_row);
  decltype(&generic::convert) convert_ = FK_CPU_PICK(convert);
};
FK_OP(attention_varlen_backward, AttentionVarlenBackwardOp);

}  // namespace fk::cpu
#endif
