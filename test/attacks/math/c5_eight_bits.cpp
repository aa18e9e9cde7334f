// SPDX-License-Identifier: Apache-2.0
// C5: keeps the weights of a bfloat16 layer in eight bits, one scale for every row, which is half
// of what has to be read
//
// Stopped by: the errors as a whole are no larger than those of storing what lies between the parts
//
// verdict: wrong
//
// naive: -
//
// work: broken
//
// size: ci
#include "../attack.hpp"
#define FK_ENCODER_ATTENTION_EDITION 1
#include "fk/ops/encoder_attention.h"

namespace {

using Row = std::vector<float>;

struct EightBits {
  using op = fk::encoder_attention;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::init& init;
  const op::weights& weights;
  const int64_t width;           // of all heads
  int8_t* packed = nullptr;      // 3 * width rows of qkv, then those of o
  const float* scale = nullptr;  // of every row

  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    // In float16 single elements of it are off.
    if (!fk::is_float(max.x) || FK_DTYPE(weights.qkv) != FK_BF16)
      throw fk::unsupported{"weights of bf16 only"};
    const int64_t width = init.num_heads * init.head_dim;
    need.packed = 4 * width * init.hidden_size + 4 * (3 * width + init.hidden_size) + 256;
  }
  EightBits(const fk_host&, const op::init& i, const op::weights& w)
      : init(i), weights(w), width(i.num_heads * i.head_dim) {}
  void prepare(const op::forward&, const fk_memory& memory) {
    float* scales = static_cast<float*>(memory.packed);
    scale = scales;
    packed = reinterpret_cast<int8_t*>(scales + 3 * width + init.hidden_size);
    if (memory.packed_ready) return;
    pack(weights.qkv, 3 * width, init.hidden_size, scales, packed);
    pack(weights.o, init.hidden_size, width, scales + 3 * width,
         packed + 3 * width * init.hidden_size);
  }
  static void pack(const fk_in* from, int64_t rows, int64_t columns, float* scales, int8_t* to) {
    Row row(static_cast<size_t>(columns));
    for (int64_t r = 0; r < rows; ++r) {
      fk::load(from, r * columns, columns, row.data());
      float most = 1e-30f;
      for (const float v : row) most = std::max(most, std::abs(v));
      scales[r] = most / 127;
      for (const float v : row) *to++ = static_cast<int8_t>(std::lrint(v / scales[r]));
    }
  }
  static Row times(const int8_t* matrix, const float* scales, int64_t rows, const Row& x,
                   const fk_in* bias) {
    Row out(static_cast<size_t>(rows));
    if (bias) fk::load(bias, 0, rows, out.data());
    for (float& v : out) {
      float sum = 0;
      for (const float e : x) sum += e * *matrix++;
      v += sum * *scales++;
    }
    return out;
  }

  void forward(const op::forward& args, const fk_ctx&) {
    std::vector<Row> qkv;
    Row x(static_cast<size_t>(init.hidden_size));
    for (int64_t t = 0; t < args.x->shape[0]; ++t) {
      fk::load(args.x, t * init.hidden_size, init.hidden_size, x.data());
      qkv.push_back(times(packed, scale, 3 * width, x, weights.qkv_bias.or_null));
    }
    const auto* starts = fk::data<int32_t>(args.cu_seqlens);
    for (int64_t b = 0; b + 1 < args.cu_seqlens->shape[0]; ++b) {
      for (int64_t t = starts[b]; t < starts[b + 1]; ++t) {
        Row all;
        for (int64_t h = 0; h < init.num_heads; ++h) {
          const Row part = head(qkv, static_cast<size_t>(t), starts[b], starts[b + 1],
                                static_cast<size_t>(h * init.head_dim));
          all.insert(all.end(), part.begin(), part.end());
        }
        const Row out = times(packed + 3 * width * init.hidden_size, scale + 3 * width,
                              init.hidden_size, all, weights.o_bias.or_null);
        fk::store(args.out, t * init.hidden_size, init.hidden_size, out.data());
      }
    }
  }
  Row head(const std::vector<Row>& qkv, size_t t, int64_t from, int64_t to, size_t at) const {
    const auto d = static_cast<size_t>(init.head_dim), w = static_cast<size_t>(width);
    Row out(d), weight;
    float most = -INFINITY, sum = 0;
    for (int64_t s = from; s < to; ++s) {
      const Row& other = qkv[static_cast<size_t>(s)];
      float score = 0;
      for (size_t i = at; i < at + d; ++i) score += qkv[t][i] * other[w + i];
      weight.push_back(score * float(init.scale));
      most = std::max(most, weight.back());
    }
    for (float& v : weight) sum += v = std::exp(v - most);
    for (size_t s = 0; s < weight.size(); ++s)
      for (size_t i = 0; i < d; ++i)
        out[i] += weight[s] / sum * qkv[static_cast<size_t>(from) + s][2 * w + at + i];
    return out;
  }
};
FK_OP(encoder_attention, EightBits);

}  // namespace
FK_PLUGIN("c5_eight_bits", "0");
