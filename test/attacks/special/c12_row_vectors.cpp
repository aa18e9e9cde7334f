// SPDX-License-Identifier: Apache-2.0
// C12: kv_cache_append that writes rows of 16-bit numbers as vectors of 16 bytes. A GPU refuses
// this for a row that does not begin at a multiple of 16
//
// Stopped by: a head width of 46, and gaps of 1 to 7 elements between rows
//
// verdict: crashed
//
// naive: -
//
// work: broken
#include <cstring>

#include "fk/cpp/floats.hpp"
#include "fk/ops/kv_cache_append.h"

namespace {

struct RowVectors {
  using op = fk::kv_cache_append;
  static constexpr fk_claims claims = fk::cpu_claims;
  static constexpr int64_t kVector = 8;  // elements
  const op::init& init;
  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    if (FK_DTYPE(max.k) != FK_BF16 || FK_DTYPE(max.k_cache) != FK_BF16)
      throw fk::unsupported{"bf16 alone"};
  }
  RowVectors(const fk_host&, const op::init& i, const op::weights&) : init(i) {}
  void prepare(const op::forward&, const fk_memory&) {}

  void copy(const uint16_t* from, uint16_t* to) const {
    int64_t i = 0;
    for (; i + kVector <= init.head_dim; i += kVector) {
      if (reinterpret_cast<uintptr_t>(to + i) % 16) __builtin_trap();  // as a GPU does
      std::memcpy(to + i, from + i, 16);
    }
    for (; i < init.head_dim; ++i) to[i] = from[i];
  }
  void append(const fk_in* rows, const fk_inout* cache, int64_t t, int64_t slot) const {
    for (int64_t g = 0; g < init.num_kv_heads; ++g) {
      const int64_t page = slot / init.page_size, place = slot % init.page_size;
      copy(fk::data<uint16_t>(rows) + t * rows->strides[0] + g * rows->strides[1],
           fk::data<uint16_t>(cache) + page * cache->strides[0] + place * cache->strides[1] +
               g * cache->strides[2]);
    }
  }
  void forward(const op::forward& args, const fk_ctx&) {
    for (int64_t t = 0; t < args.k->shape[0]; ++t) {
      const int64_t slot = fk::data<int64_t>(args.slot_mapping)[t];
      if (slot < 0) continue;
      append(args.k, args.k_cache, t, slot);
      append(args.v, args.v_cache, t, slot);
    }
  }
};
FK_OP(kv_cache_append, RowVectors);

}  // namespace
FK_PLUGIN("c12_row_vectors", "0");
