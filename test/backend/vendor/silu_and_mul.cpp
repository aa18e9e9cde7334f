// SPDX-License-Identifier: Apache-2.0
// A plugin for the vendor's device: its kernel runs on the queue of fk_ctx.stream.
#include "fk/ops/silu_and_mul.h"

#include <cmath>

#include "fk/cpp/floats.hpp"
#include "stream.h"

namespace {

struct Arguments {
  fk_in x;
  fk_out out;
  int64_t tokens, width;
  float* gate;
};

void kernel(void* memory) {
  const Arguments& a = *static_cast<const Arguments*>(memory);
  float* const up = a.gate + a.width;
  for (int64_t t = 0; t < a.tokens; ++t) {
    fk::load(&a.x, t * 2 * a.width, 2 * a.width, a.gate);
    for (int64_t i = 0; i < a.width; ++i)
      a.gate[i] = a.gate[i] / (1 + std::exp(-a.gate[i])) * up[i];
    fk::store(&a.out, t * a.width, a.width, a.gate);
  }
}

struct SiluAndMul {
  using op = fk::silu_and_mul;
  static constexpr fk_claims claims{
      FK_END(fk_claims, sm), VENDOR_TYPE, FK_GRAPH_ALWAYS, 1, 1, FK_ACCUMULATE_F32, 0, 0, nullptr};
  const op::init& init;

  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    if (!fk::is_float(max.x)) throw fk::unsupported{"f32, bf16 and f16 only"};
    need.scratch = 2 * init.size * int64_t{sizeof(float)};
  }
  SiluAndMul(const fk_host&, const op::init& i, const op::weights&) : init(i) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const Arguments a = {*args.x, *args.out, args.x->shape[0], init.size,
                         static_cast<float*>(ctx.scratch)};
    auto* const stream = static_cast<vendor_stream*>(ctx.stream);
    stream->enqueue(stream, "silu_and_mul", kernel, &a, sizeof a);
  }
};
FK_OP(silu_and_mul, SiluAndMul);

}  // namespace

FK_PLUGIN("queue_silu", "1.0");
