// SPDX-License-Identifier: Apache-2.0
// hash_grid_encoding: point by point and level by level; reading corners bounds its time. Places
// between corners are double: a float has few bits left at fine levels.
#include "simd.hpp"

namespace fk::cpu {
struct HashLevel {
  double scale;
  int64_t first, rows;
  uint32_t edge;
  bool dense;
};
struct HashedPoints {
  const float* positions;
  const void* table;
  float* out;
  const HashLevel* levels;
  int64_t count, features;
  int type;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(hashed_points, const HashedPoints&, int64_t begin, int64_t end)

namespace fk::cpu::FK_CPU_LEVEL {

// One point at one level.
template <class T>
FK_INLINE void hashed_point(const HashLevel& level, const float* at, const T* table, int64_t n,
                            float* out) {
  uint32_t low[3];
  float part[3];
  for (int c = 0; c < 3; ++c) {
    const double x = at[c] > 0 ? static_cast<double>(at[c] < 1 ? at[c] : 1.F) : 0;
    const double p = x * level.scale + 0.5;
    low[c] = static_cast<uint32_t>(p);
    part[c] = static_cast<float>(p - static_cast<double>(low[c]));
  }
  for (int64_t f = 0; f < n; ++f) out[f] = 0;
  for (uint32_t corner = 0; corner < 8; ++corner) {
    const uint32_t x = low[0] + (corner & 1), y = low[1] + (corner >> 1 & 1),
                   z = low[2] + (corner >> 2);
    float share = 1;
    for (uint32_t c = 0; c < 3; ++c) share *= corner >> c & 1 ? part[c] : 1 - part[c];
    const uint32_t key = level.dense ? x + y * level.edge + z * level.edge * level.edge
                                     : x ^ (y * 2654435761U) ^ (z * 805459861U);
    const T* row = table + (level.first + static_cast<int64_t>(key) % level.rows) * n;
    for (int64_t f = 0; f < n; ++f) out[f] += share * to_float(row[f]);
  }
}

// Points [begin, end).
void hashed_points(const HashedPoints& a, int64_t begin, int64_t end) {
  with_type(a.type, [&]<class T>() {
    for (int64_t t = begin; t < end; ++t)
      for (int64_t l = 0; l < a.count; ++l)
        hashed_point(a.levels[l], a.positions + 3 * t, static_cast<const T*>(a.table), a.features,
                     a.out + (t * a.count + l) * a.features);
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include <vector>

#include "fk/ops/hash_grid_encoding.h"
#include "op.hpp"

namespace fk::cpu {

struct HashGridEncodingOp {
  using op = fk::hash_grid_encoding;
  static constexpr fk_claims claims = cpu_claims;

  static std::vector<HashLevel> levels_of(const op::init& init, int64_t& rows) {
    std::vector<HashLevel> levels;
    rows = 0;
    if (init.n_levels > 64) throw unsupported{"n_levels: 1 to 64"};
    for (int64_t l = 0; l < init.n_levels; ++l) {
      const double scale = static_cast<double>(init.base_resolution) *
                               std::pow(init.per_level_scale, static_cast<double>(l)) -
                           1;
      if (!(scale < (1 << 20) - 1)) throw unsupported{"per_level_scale: levels of 2^20 corners"};
      const auto edge = static_cast<int64_t>(std::ceil(scale)) + 1;
      const int64_t cubed = edge * edge * edge,
                    own = std::min(int64_t{1} << init.log2_hashmap_size, (cubed + 7) / 8 * 8);
      levels.push_back({scale, rows, own, static_cast<uint32_t>(edge), cubed <= own});
      rows += own;
    }
    return levels;
  }
  static void supports(const op::init& init, const op::weights& weights, const op::forward&,
                       fk_need&) {
    need_float(weights.table, "table: f32, bf16 or f16");
    int64_t rows = 0;
    levels_of(init, rows);
    if (rows != weights.table->shape[0]) throw unsupported{"table: the rows of all levels"};
  }
  HashGridEncodingOp(const fk_host& host, const op::init& init, const op::weights& weights)
      : init_(init), weights_(weights), threads_(threads_of(host)) {
    int64_t rows = 0;
    levels_ = levels_of(init, rows);
  }
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const HashedPoints a{data<float>(args.positions),
                         weights_.table->data,
                         data<float>(args.out),
                         levels_.data(),
                         init_.n_levels,
                         init_.n_features,
                         type_of(weights_.table)};
    split(threads_, args.positions->shape[0], args.out->nbytes * 32,
          [&](int64_t begin, int64_t end, int) { kernel_(a, begin, end); });
  }

 private:
  const op::init& init_;
  const op::weights& weights_;
  const int threads_;
  std::vector<HashLevel> levels_;
  decltype(&generic::hashed_points) kernel_ = FK_CPU_PICK(hashed_points);
};
FK_OP(hash_grid_encoding, HashGridEncodingOp);

}  // namespace fk::cpu
#endif
