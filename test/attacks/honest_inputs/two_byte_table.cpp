// SPDX-License-Identifier: Apache-2.0
// honest: rotary_embedding as vLLM's kernel computes it: table, products and differences have the
// dtype of q
//
// size: ci
#include "../attack.hpp"
#include "fk/ops/rotary_embedding.h"

namespace {

struct TwoByteTable {
  using op = fk::rotary_embedding;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::init& init;
  const op::weights& weights;
  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    if (!fk::is_float(max.q)) throw fk::unsupported{"f32, bf16 and f16 only"};
  }
  TwoByteTable(const fk_host&, const op::init& i, const op::weights& w) : init(i), weights(w) {}
  void prepare(const op::forward&, const fk_memory&) {}

  static float rounded(const fk_inout* as, float value) {
    if (FK_DTYPE(as) != FK_BF16) return value;
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
    std::memcpy(&value, &bits, sizeof bits);
    return value;
  }
  void turn(const fk_inout* heads, int64_t count, int64_t t, const float* table) const {
    const int64_t half = init.rotary_dim / 2;
    std::vector<float> row(static_cast<size_t>(init.rotary_dim));
    const auto in = [&](float value) { return rounded(heads, value); };
    for (int64_t h = 0; h < count; ++h) {
      const int64_t at = t * heads->strides[0] + h * heads->strides[1];
      fk::load(heads, at, init.rotary_dim, row.data());
      for (int64_t i = 0; i < half; ++i) {
        const auto first = static_cast<size_t>(init.interleaved ? 2 * i : i);
        const auto second = static_cast<size_t>(init.interleaved ? 2 * i + 1 : i + half);
        const float x = row[first], y = row[second], c = in(table[i]), s = in(table[half + i]);
        row[first] = in(x * c) - in(y * s);
        row[second] = in(y * c) + in(x * s);
      }
      fk::store(heads, at, init.rotary_dim, row.data());
    }
  }
  void forward(const op::forward& args, const fk_ctx&) {
    for (int64_t t = 0; t < args.q->shape[0]; ++t) {
      const float* table = fk::data<float>(weights.cos_sin_cache) +
                           fk::data<int64_t>(args.positions)[t] * init.rotary_dim;
      turn(args.q, init.num_heads, t, table);
      turn(args.k, init.num_kv_heads, t, table);
    }
  }
};
FK_OP(rotary_embedding, TwoByteTable);

}  // namespace
FK_PLUGIN("two_byte_table", "0");
