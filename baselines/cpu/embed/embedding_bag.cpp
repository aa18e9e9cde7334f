// SPDX-License-Identifier: Apache-2.0
// embedding_bag: sums rows of a table. Reading them bounds its time, for they are scattered. Sums
// of a block of channels stay in registers, and rows are prefetched a few indices ahead.
#include "simd.hpp"

namespace fk::cpu {
// One bag: the sum or mean of `count` rows. `padding`: an index without a row; negative: none.
struct Bag {
  const void *table, *weights_or_null;
  const int64_t* indices;
  void* out;
  int64_t count, channels, padding;
  int type, out_type;
  bool mean;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(embedding_bag, const Bag&)

namespace fk::cpu::FK_CPU_LEVEL {

inline constexpr int64_t kAhead = 4;  // indices from a prefetch to its use

// Sums kBlock vectors of channels from `first` on.
template <class T, class O, int kBlock>
FK_INLINE void bag_block(const Bag& a, int64_t first, float scale) {
  const T* table = static_cast<const T*>(a.table) + first;
  const T* weights = static_cast<const T*>(a.weights_or_null);
  Vf sum[kBlock];
  for (Vf& s : sum) s = Vf{};
  for (int64_t j = 0; j < a.count; ++j) {
    if (j + kAhead < a.count) {
      const T* next = table + a.indices[j + kAhead] * a.channels;
      for (int v = 0; v < kBlock; ++v) __builtin_prefetch(next + v * kLanes);
    }
    const int64_t id = a.indices[j];
    if (id == a.padding) continue;
    const T* row = table + id * a.channels;
    if (weights) {
      const Vf weight = splat(to_float(weights[j]));
      for (int v = 0; v < kBlock; ++v) sum[v] += weight * load(row + v * kLanes);
    } else {
      for (int v = 0; v < kBlock; ++v) sum[v] += load(row + v * kLanes);
    }
  }
  O* out = static_cast<O*>(a.out) + first;
  for (int v = 0; v < kBlock; ++v) store(out + v * kLanes, sum[v] * scale);
}

// The channels from `first` on that are no whole block, a vector at a time.
template <class T, class O>
void bag_rest(const Bag& a, int64_t first, float scale) {
  for (int64_t c = first; c < a.channels; c += kLanes) {
    const int64_t n = a.channels - c < kLanes ? a.channels - c : kLanes;
    Vf sum{};
    for (int64_t j = 0; j < a.count; ++j) {
      const int64_t id = a.indices[j];
      if (id == a.padding) continue;
      const T* row = static_cast<const T*>(a.table) + id * a.channels + c;
      const T* weights = static_cast<const T*>(a.weights_or_null);
      const Vf weight = splat(weights ? to_float(weights[j]) : 1.f);
      sum += weight * (n == kLanes ? load(row) : load_n(row, n));
    }
    O* out = static_cast<O*>(a.out) + c;
    if (n == kLanes)
      store(out, sum * scale);
    else
      store_n(out, sum * scale, n);
  }
}

void embedding_bag(const Bag& a) {
  int64_t counted = a.count;
  if (a.mean && a.padding >= 0)
    for (int64_t j = 0; j < a.count; ++j) counted -= a.indices[j] == a.padding;
  const float scale = a.mean && counted ? 1.f / static_cast<float>(counted) : 1.f;
  with_type(a.type, [&]<class T>() {
    with_type(a.out_type, [&]<class O>() {
      int64_t c = 0;
      for (; c + 8 * kLanes <= a.channels; c += 8 * kLanes) bag_block<T, O, 8>(a, c, scale);
      for (; c + 4 * kLanes <= a.channels; c += 4 * kLanes) bag_block<T, O, 4>(a, c, scale);
      bag_rest<T, O>(a, c, scale);
    });
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/embedding_bag.h"
#include "op.hpp"

namespace fk::cpu {

struct EmbeddingBagOp {
  using op = fk::embedding_bag;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need&) {
    need_float(max.out, "out: f32, bf16 or f16");
    for (int64_t n = 0; n < init.num_tables; ++n) {
      need_float(weights.tables->at[n], "tables: f32, bf16 or f16");
      need_same(weights.tables->at[0], weights.tables->at[n], "tables: all of one type");
    }
    if (init.mode == FK_EMBEDDING_BAG_MODE_MEAN && max.per_sample_weights.or_null)
      throw unsupported{"per_sample_weights: in sums only"};
  }
  EmbeddingBagOp(const fk_host& host, const op::init& init, const op::weights& weights)
      : init_(init), weights_(weights), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t bags = args.out->shape[0];
    int64_t rows = 0;
    for (int64_t n = 0; n < init_.num_tables; ++n) rows += args.indices->at[n]->shape[0];
    const int64_t row_bytes = init_.embedding_dim * 4;
    // An item is a short run of bags of one table, because long bags may be adjacent in one table.
    constexpr int64_t kBags = 16;
    const int64_t runs = (bags + kBags - 1) / kBags;
    share(threads_, init_.num_tables * runs, rows * row_bytes + args.out->nbytes,
          [&](int64_t task, int) {
            const int64_t n = task / runs, first = task % runs * kBags;
            for (int64_t b = first; b < std::min(bags, first + kBags); ++b) sum(args, n, b);
          });
  }

 private:
  void sum(const op::forward& args, int64_t n, int64_t b) const {
    const fk_in* table = weights_.tables->at[n];
    const auto* offsets = data<int64_t>(args.offsets->at[n]);
    const auto* given = args.per_sample_weights.or_null;
    Bag bag{};
    bag.table = table->data;
    bag.type = type_of(table);
    bag.out_type = type_of(args.out);
    bag.indices = data<int64_t>(args.indices->at[n]) + offsets[b];
    if (given) bag.weights_or_null = data<char>(given->at[n]) + offsets[b] * bytes_of(bag.type);
    bag.count = offsets[b + 1] - offsets[b];
    bag.channels = init_.embedding_dim;
    bag.padding = init_.padding_idx;
    bag.mean = init_.mode == FK_EMBEDDING_BAG_MODE_MEAN;
    bag.out = data<char>(args.out) +
              (b * init_.num_tables + n) * init_.embedding_dim * bytes_of(bag.out_type);
    kernel_(bag);
  }

  const op::init& init_;
  const op::weights& weights_;
  const int threads_;
  decltype(&generic::embedding_bag) kernel_ = FK_CPU_PICK(embedding_bag);
};
FK_OP(embedding_bag, EmbeddingBagOp);

}  // namespace fk::cpu
#endif
