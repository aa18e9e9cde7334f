// SPDX-License-Identifier: Apache-2.0
// moe_grouped_gemm: a product per expert. Experts with few rows, and small experts, use
// small_m.hpp, all of them in one fork. The rows of other experts are gathered into dense rows for
// product.hpp. The weight of an expert without rows is not read.
#ifdef FK_CPU_OPS
#define FK_MOE_GROUPED_GEMM_EDITION 2  // with the fields that the contract marks `since: 2`
#include "fk/ops/moe_grouped_gemm.h"
#include "product.hpp"

namespace fk::cpu {

struct MoeGroupedGemmOp {
  using op = fk::moe_grouped_gemm;
  static constexpr fk_claims claims{FK_END(fk_claims, sm), FK_CPU,
                                    FK_GRAPH_ALWAYS,       /*deterministic=*/1,
                                    /*batch_invariant=*/0, FK_ACCUMULATE_F32,
                                    /*side_streams=*/0,    /*sm_count=*/0,
                                    /*sm=*/nullptr};

  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_float(weights.weight, "weight: f32, bf16 or f16");
    need_float(max.x, "x: f32, bf16 or f16");
    need_float(max.out, "out: f32, bf16 or f16");
    const ProductTypes t = types(weights, max);
    const int64_t n = init.out_features, k = init.in_features, m = rows_max(max);
    const int64_t gathered =
        m > kSmallM ? aligned(m * k * bytes_of(t.x)) + aligned(m * n * bytes_of(t.out)) : 0;
    need.scratch =
        std::max(threads_max() * few_floats(k) * 4, gathered + Product::scratch_bytes(m, k, t));
  }
  MoeGroupedGemmOp(const fk_host& host, const op::init& init, const op::weights& weights)
      : init_(init), weights_(weights), threads_(threads_of(host)) {}

  void prepare(const op::forward& max, const fk_memory&) {
    product_ = std::make_unique<Product>(init_.out_features, init_.in_features,
                                         types(weights_, max), threads_);
    types_ = types(weights_, max);
    rows_max_ = rows_max(max);
    for (int64_t m = kSmallM + 1; m <= rows_max_; m = bucket(m) + 1)
      product_->prepare(bucket(m), init_.in_features);
  }

  void forward(const op::forward& args, const fk_ctx& ctx) {
    run_few(args, static_cast<float*>(ctx.scratch));
    const auto* offsets = data<int32_t>(args.expert_offsets);
    for (int64_t e = 0; e < init_.num_experts; ++e) {
      const int64_t count = offsets[e + 1] - offsets[e];
      if (is_few(count)) continue;
      for (int64_t first = offsets[e]; first < offsets[e + 1]; first += kRowsMax) {
        run_many(args, e, first, std::min<int64_t>(kRowsMax, offsets[e + 1] - first),
                 static_cast<char*>(ctx.scratch));
      }
    }
  }

 private:
  // Most rows of an expert in one product. Products are prepared only for the numbers of rows of
  // bucket(); zeros fill the rows in between.
  static constexpr int64_t kRowsMax = 256;
  // Experts with less work (rows * N * K) run in chunks of few rows, all in one fork. Gathering
  // their rows and a fork for each of them would take longer.
  static constexpr int64_t kFewWork = 8 << 20;
  bool is_few(int64_t count) const {
    return count <= kSmallM || count * init_.out_features * init_.in_features <= kFewWork;
  }
  // The number of rows, m or more, for which a product is prepared.
  static int64_t bucket(int64_t m) {
    const int64_t step = m <= 64 ? 16 : m <= 128 ? 32 : 64;
    return (m + step - 1) / step * step;
  }
  static int64_t rows_max(const op::forward& max) {
    return bucket(std::min<int64_t>(kRowsMax, max.row_ids->shape[0]));
  }
  static int64_t aligned(int64_t bytes) { return (bytes + 255) / 256 * 256; }
  static int64_t few_stride(int64_t k) { return padded(k) + 48; }  // as in product.cpp
  static int64_t few_floats(int64_t k) { return kSmallM * few_stride(k); }
  static ProductTypes types(const op::weights& weights, const op::forward& max) {
    const fk_in* bias = weights.bias.or_null;
    return {type_of(max.x), type_of(weights.weight), type_of(max.out), bias ? type_of(bias) : -1};
  }

  const char* bias_of(int64_t expert) const {
    if (!weights_.bias.or_null) return nullptr;
    return data<char>(weights_.bias) + expert * init_.out_features * bytes_of(types_.bias);
  }

  // All experts with few rows. An item is a range of columns of a chunk of at most kSmallM rows.
  void run_few(const op::forward& args, float* scratch) const {
    const auto* offsets = data<int32_t>(args.expert_offsets);
    const auto* ids = data<int32_t>(args.row_ids);
    const int64_t n = init_.out_features, k = init_.in_features,
                  weight_bytes = n * k * bytes_of(types_.weight);
    int64_t chunks = 0;
    for (int64_t e = 0; e < init_.num_experts; ++e) {
      const int64_t count = offsets[e + 1] - offsets[e];
      if (is_few(count)) chunks += (count + kSmallM - 1) / kSmallM;
    }
    // Chunks are cut by columns only if they are too few for the threads.
    const int64_t units = (n + kSmallColumns - 1) / kSmallColumns;
    const int64_t cuts =
        std::min(units, chunks == 0 ? 1 : (threads_ * kPartsPerThread + chunks - 1) / chunks);
    split(threads_, chunks * cuts, chunks * weight_bytes,
          [&](int64_t begin, int64_t end, int thread) {
            float* rows = scratch + thread * few_floats(k);
            int64_t item = 0;  // the first item of the chunk
            for (int64_t e = 0; e < init_.num_experts && item < end; ++e) {
              const int64_t count = offsets[e + 1] - offsets[e];
              if (!is_few(count)) continue;
              for (int64_t first = 0; first < count; first += kSmallM, item += cuts) {
                const int64_t from = std::max(begin - item, int64_t{0}),
                              to = std::min(end - item, cuts);
                if (from < to)
                  run_chunk(args, e, ids + offsets[e] + first,
                            std::min<int64_t>(kSmallM, count - first), rows,
                            units * from / cuts * kSmallColumns,
                            std::min(n, units * to / cuts * kSmallColumns));
              }
            }
          });
  }

  // Columns [begin, end) of at most kSmallM assignments of an expert. `rows` has room for their
  // rows of x in float32.
  void run_chunk(const op::forward& args, int64_t expert, const int32_t* ids, int64_t count,
                 float* rows, int64_t begin, int64_t end) const {
    const int64_t n = init_.out_features, k = init_.in_features;
    SmallM a{};
    a.weight = data<char>(weights_.weight) + expert * n * k * bytes_of(types_.weight);
    a.k = k;
    a.m = static_cast<int>(count);
    a.weight_type = types_.weight;
    a.bias = bias_of(expert);
    a.bias_type = types_.bias;
    a.out_type = types_.out;
    for (int64_t i = 0; i < count; ++i) {
      const char* x = data<char>(args.x) + ids[i] / init_.top_k * k * bytes_of(types_.x);
      a.x[i] = types_.x == kF32 ? reinterpret_cast<const float*>(x) : rows + i * few_stride(k);
      if (types_.x != kF32)
        convert_({x, rows + i * few_stride(k), /*bias=*/nullptr, types_.x, kF32, /*bias_type=*/0},
                 k);
      a.out[i] = data<char>(args.out) + int64_t{ids[i]} * n * bytes_of(types_.out);
    }
    small_m_(a, begin, end);
  }

  // One product of `count` rows of an expert: gathers the rows, multiplies, and scatters the
  // results.
  void run_many(const op::forward& args, int64_t expert, int64_t first, int64_t count,
                char* scratch) {
    const auto* ids = data<int32_t>(args.row_ids) + first;
    const int64_t n = init_.out_features, k = init_.in_features;
    const int64_t x_bytes = k * bytes_of(types_.x), out_bytes = n * bytes_of(types_.out);
    const int64_t m = bucket(count);
    char* x = scratch;
    char* out = x + aligned(rows_max_ * x_bytes);
    char* rest = out + aligned(rows_max_ * out_bytes);
    split(threads_, m, m * x_bytes * 2, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const auto bytes = static_cast<size_t>(x_bytes);
        if (i >= count)
          std::memset(x + i * x_bytes, 0, bytes);
        else
          std::memcpy(x + i * x_bytes, data<char>(args.x) + ids[i] / init_.top_k * x_bytes, bytes);
      }
    });
    const char* weight = data<char>(weights_.weight) + expert * n * k * bytes_of(types_.weight);
    product_->run(m, x, k, weight, bias_of(expert), out, rest);
    split(threads_, count, count * out_bytes * 2, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        std::memcpy(data<char>(args.out) + ids[i] * out_bytes, out + i * out_bytes,
                    static_cast<size_t>(out_bytes));
      }
    });
  }

  const op::init& init_;
  const op::weights& weights_;
  const int threads_;
  int64_t rows_max_ = 0;
  ProductTypes types_{};
  std::unique_ptr<Product> product_;
  decltype(&generic::small_m) small_m_ = FK_CPU_PICK(small_m);
  decltype(&generic::convert) convert_ = FK_CPU_PICK(convert);
};
FK_OP(moe_grouped_gemm, MoeGroupedGemmOp);

}  // namespace fk::cpu
#endif
