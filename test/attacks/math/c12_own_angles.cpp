// SPDX-License-Identifier: Apache-2.0
// C12: does not read the table of cosines and sines, but makes them as they are without scaling
//
// Stopped by: tables with frequencies and a factor of their own
//
// verdict: wrong
//
// naive: -
//
// work: broken
#include "../attack.hpp"
#include "fk/ops/rotary_embedding.h"

namespace {

struct OwnAngles {
  using op = fk::rotary_embedding;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::init& init;
  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    if (!fk::is_float(max.q)) throw fk::unsupported{"f32, bf16 and f16 only"};
  }
  OwnAngles(const fk_host&, const op::init& i, const op::weights&) : init(i) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    for (const fk_inout* x : {args.q, args.k})
      for (int64_t t = 0; t < x->shape[0]; ++t)
        for (int64_t h = 0; h < x->shape[1]; ++h)
          turn(x, t * x->strides[0] + h * x->strides[1], fk::data<int64_t>(args.positions)[t]);
  }
  void turn(const fk_inout* x, int64_t at, int64_t position) const {
    const int64_t half = init.rotary_dim / 2, apart = init.interleaved ? 1 : half;
    for (int64_t i = 0; i < half; ++i) {
      const double exponent = -2 * double(i) / double(init.rotary_dim);
      const double angle = double(position) * std::pow(10000.0, exponent);
      const auto c = float(std::cos(angle)), s = float(std::sin(angle));
      const int64_t first = at + (init.interleaved ? 2 * i : i);
      float a = 0, b = 0;
      fk::load(x, first, 1, &a);
      fk::load(x, first + apart, 1, &b);
      const float turned[2] = {a * c - b * s, b * c + a * s};
      fk::store(x, first, 1, turned);
      fk::store(x, first + apart, 1, turned + 1);
    }
  }
};
FK_OP(rotary_embedding, OwnAngles);

}  // namespace
FK_PLUGIN("c12_own_angles", "0");
