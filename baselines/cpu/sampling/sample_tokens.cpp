// SPDX-License-Identifier: Apache-2.0
// sample_tokens without a sort of the vocabulary. One pass puts every token into one of 2048
// buckets by its distance from the largest logit, and sums the mass of each bucket. The limits of
// top_k and top_p and the sampled token each fall into one bucket, and only that one is sorted.
// Sums are in double, so a token differs from the exact answer only if `uniform` is within about
// 1e-13 of a boundary.
#include "math.hpp"

namespace fk::cpu {

inline constexpr int64_t kBuckets = 2048;
// Distance of the last bucket: exp(-45) = 3e-20. It takes all tokens further away, too.
inline constexpr float kReach = 45.f;

struct SampleRow {
  const void* logits;
  int64_t vocabulary;
  float top, temperature;  // top: the largest logit
  uint16_t* bucket;        // [V]: each token's bucket
  int32_t* counts;         // [kBuckets]: tokens of each
  double* mass;            // [kBuckets]: sum of exp((logit - top) / temperature)
  int type;
};
struct TopToken {
  float logit;
  int64_t index;  // the lowest index at ties
};

}  // namespace fk::cpu
// The largest logit of a row.
FK_CPU_KERNEL(sample_top, const SampleRow&, TopToken* top)
// Fills bucket, counts and mass.
FK_CPU_KERNEL(sample_buckets, const SampleRow&)

namespace fk::cpu::FK_CPU_LEVEL {

void sample_top(const SampleRow& a, TopToken* top) {
  with_type(a.type, [&]<class T>() {
    const T* logits = static_cast<const T*>(a.logits);
    const int64_t whole = a.vocabulary / kLanes * kLanes;
    Vf most[4];
    for (Vf& m : most) m = splat(-__builtin_inff());
    int64_t i = 0;
    for (; i + 4 * kLanes <= whole; i += 4 * kLanes) {
      for (int j = 0; j < 4; ++j) most[j] = max(load(logits + i + j * kLanes), most[j]);
    }
    for (; i < whole; i += kLanes) most[0] = max(load(logits + i), most[0]);
    float best = max(max(max(most[0], most[1]), max(most[2], most[3])));
    for (; i < a.vocabulary; ++i) best = to_float(logits[i]) > best ? to_float(logits[i]) : best;
    int64_t at = 0;
    for (; at < whole; at += kLanes) {
      const Vi hit = load(logits + at) == splat(best);
      int32_t any = 0;
      for (int64_t j = 0; j < kLanes; ++j) any |= hit[j];
      if (any) break;
    }
    while (at + 1 < a.vocabulary && to_float(logits[at]) != best) ++at;
    *top = {best, at};
  });
}

void sample_buckets(const SampleRow& a) {
  // Buckets per unit of logit distance; the bound keeps it finite.
  const float wanted = static_cast<float>(kBuckets) / (kReach * a.temperature);
  const float scale = wanted < 1e30f ? wanted : 1e30f;
  const Vf last = splat(static_cast<float>(kBuckets - 1));
  const Vd top = Vd{} + static_cast<double>(a.top),
           inverse = Vd{} + 1.0 / static_cast<double>(a.temperature);
  constexpr int64_t kHalf = kLanes / 2;
  with_type(a.type, [&]<class T>() {
    each_vector(a.vocabulary, [&](int64_t i, auto n) {
      const Vf logit = load(static_cast<const T*>(a.logits) + i, n);
      const Vf distance = (a.top - logit) * scale;
      const Vi bucket = __builtin_convertvector(distance < last ? distance : last, Vi);
      float floats[kLanes];
      int32_t buckets[kLanes];
      double p[kLanes];
      store(floats, logit);
      __builtin_memcpy(buckets, &bucket, sizeof bucket);
      for (int half = 0; half < 2; ++half) {
        const Vd x = __builtin_convertvector(read<Vhalf>(floats + half * kHalf), Vd);
        const Vd v = exp_negative((x - top) * inverse);
        __builtin_memcpy(p + half * kHalf, &v, sizeof v);
      }
      const int64_t count = lanes(n);
      for (int64_t j = 0; j < count; ++j) {
        a.bucket[i + j] = static_cast<uint16_t>(buckets[j]);
        ++a.counts[buckets[j]];
        a.mass[buckets[j]] += p[j];
      }
    });
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/sample_tokens.h"
#include "op.hpp"

namespace fk::cpu {

namespace {

// The tokens of one row from the most probable down, with their counts and masses so far. It skips
// whole buckets by their sums and sorts a bucket only to enter it.
class Walk {
 public:
  Walk(const SampleRow& row, uint64_t* tokens) : row_(row), tokens_(tokens) {}

  // Visits tokens until stop(count, mass) is true; both include the current token. skip(count,
  // mass) is true if stop cannot be true up to a bucket's end, which has this count and mass.
  template <class Skip, class Stop>
  void find(const Skip& skip, const Stop& stop) {
    count = 0;
    mass = 0;
    for (int64_t b = 0; b < kBuckets; ++b) {
      if (row_.counts[b] == 0) continue;
      if (skip(count + row_.counts[b], mass + row_.mass[b])) {
        count += row_.counts[b];
        mass += row_.mass[b];
        continue;
      }
      sort(b);
      for (int64_t i = 0; i < row_.counts[b]; ++i) {
        ++count;
        mass += weight(tokens_[i]);
        token = static_cast<int64_t>(tokens_[i] & 0xffffffffu);
        if (stop(count, mass)) return;
      }
    }
  }

  int64_t count = 0, token = 0;
  double mass = 0;

 private:
  // In float32; bf16 is the only other type.
  float logit(int64_t i) const {
    if (row_.type == kF32) return static_cast<const float*>(row_.logits)[i];
    const uint32_t bits = uint32_t{static_cast<const uint16_t*>(row_.logits)[i]} << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  // The mass of a token. Tokens of equal logits follow each other, so the last one is kept.
  double weight(uint64_t token_key) {
    const auto order = static_cast<uint32_t>(token_key >> 32);
    if (order != order_) {
      order_ = order;
      const double x = logit(static_cast<int64_t>(token_key & 0xffffffffu));
      weight_ = std::exp((x - row_.top) / row_.temperature);
    }
    return weight_;
  }
  // Sorts the tokens of a bucket by logit, largest first, then by index.
  void sort(int64_t bucket) {
    if (sorted_ == bucket) return;
    sorted_ = bucket;
    order_ = 0;
    weight_ = 0;  // order 0 would be a NaN: no token has it
    int64_t n = 0;
    for (int64_t i = 0; i < row_.vocabulary; ++i) {
      if (row_.bucket[i] != bucket) continue;
      const float value = logit(i) + 0.f;  // -0 is 0
      uint32_t bits;
      std::memcpy(&bits, &value, sizeof bits);
      // Ascending in this is descending in the logit.
      bits = bits >> 31 ? bits : ~bits & 0x7fffffffu;
      tokens_[n++] = uint64_t{bits} << 32 | static_cast<uint32_t>(i);
    }
    std::sort(tokens_, tokens_ + n);
  }

  const SampleRow& row_;
  uint64_t* tokens_;  // tokens of bucket sorted_: order in the high half, index in the low
  int64_t sorted_ = -1;
  uint32_t order_ = 0;
  double weight_ = 0;
};

// The token for `uniform` in [0, 1), after the limits of top_k (0: none) and top_p.
int64_t draw(const SampleRow& row, uint64_t* tokens, int64_t top_k, double top_p, double uniform) {
  Walk walk(row, tokens);
  int64_t kept = row.vocabulary;
  double mass = 0;
  for (int64_t b = 0; b < kBuckets; ++b) mass += row.mass[b];
  if (top_k > 0 && top_k < row.vocabulary) {
    walk.find([&](int64_t count, double) { return count < top_k; },
              [&](int64_t count, double) { return count == top_k; });
    kept = walk.count;
    mass = walk.mass;
  }
  if (top_p < 1) {
    const double wanted = top_p * mass;
    walk.find([&](int64_t count, double sum) { return count < kept && sum < wanted; },
              [&](int64_t count, double sum) { return count == kept || sum >= wanted; });
    kept = walk.count;
    mass = walk.mass;
  }
  const double wanted = uniform * mass;
  walk.find([&](int64_t count, double sum) { return count < kept && sum < wanted; },
            [&](int64_t count, double sum) { return count == kept || sum > wanted; });
  return walk.token;
}

}  // namespace

struct SampleTokensOp {
  using op = fk::sample_tokens;
  static constexpr fk_claims claims{FK_END(fk_claims, sm), FK_CPU,
                                    FK_GRAPH_ALWAYS,       /*deterministic=*/1,
                                    /*batch_invariant=*/1, FK_ACCUMULATE_F64,
                                    /*side_streams=*/0,    /*sm_count=*/0,
                                    /*sm=*/nullptr};

  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    if (FK_DTYPE(max.logits) != FK_F32 && FK_DTYPE(max.logits) != FK_BF16) {
      throw unsupported{"logits: f32 or bf16"};
    }
    need.scratch = threads_max() * thread_bytes(init.vocab_size);
  }
  SampleTokensOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t row_count = args.logits->shape[0];
    share(threads_, row_count, args.logits->nbytes, [&](int64_t i, int thread) {
      char* own = static_cast<char*>(ctx.scratch) + thread * thread_bytes(init_.vocab_size);
      data<int64_t>(args.tokens)[i] = sample(args, i, own);
    });
  }

 private:
  static int64_t thread_bytes(int64_t vocabulary) {
    // 10: a key and a bucket for each token; 12: a mass and a count for each bucket
    return (vocabulary * 10 + kBuckets * 12 + 255) / 256 * 256;
  }

  int64_t sample(const op::forward& args, int64_t i, char* own) const {
    SampleRow row{};
    row.type = type_of(args.logits);
    row.vocabulary = init_.vocab_size;
    row.logits = data<char>(args.logits) + i * row.vocabulary * bytes_of(row.type);
    row.temperature = data<float>(args.temperature)[i];
    TopToken top{};
    top_(row, &top);
    if (!(row.temperature > 0) || !std::isfinite(top.logit)) return top.index;
    row.top = top.logit;
    row.mass = reinterpret_cast<double*>(own);
    auto* tokens = reinterpret_cast<uint64_t*>(row.mass + kBuckets);
    row.counts = reinterpret_cast<int32_t*>(tokens + row.vocabulary);
    row.bucket = reinterpret_cast<uint16_t*>(row.counts + kBuckets);
    std::fill_n(row.mass, kBuckets, 0.0);
    std::fill_n(row.counts, kBuckets, 0);
    buckets_(row);
    return draw(row, tokens, data<int32_t>(args.top_k)[i], data<float>(args.top_p)[i],
                data<float>(args.uniform)[i]);
  }

  const op::init& init_;
  const int threads_;
  decltype(&generic::sample_top) top_ = FK_CPU_PICK(sample_top);
  decltype(&generic::sample_buckets) buckets_ = FK_CPU_PICK(sample_buckets);
};
FK_OP(sample_tokens, SampleTokensOp);

}  // namespace fk::cpu
#endif
