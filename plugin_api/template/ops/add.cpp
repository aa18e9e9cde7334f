// SPDX-License-Identifier: Apache-2.0
// add on the CPU, unoptimised. `fk-host show add` prints the contract.
#include "fk/ops/add.h"

#include "fk/cpp/floats.hpp"

namespace {

struct Add {
  using op = fk::add;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::init& init;

  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    if (!fk::is_float(max.a)) throw fk::unsupported{"f32, bf16 and f16 only"};
    need.scratch = 2 * init.size * int64_t{sizeof(float)};
  }
  Add(const fk_host&, const op::init& i, const op::weights&) : init(i) {}
  void prepare(const op::forward&, const fk_memory&) {}

  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t tokens = args.a->shape[0], width = init.size;
    float *a = static_cast<float*>(ctx.scratch), *b = a + width;
    for (int64_t t = 0; t < tokens; ++t) {
      fk::load(args.a, t * width, width, a);
      fk::load(args.b, t * width, width, b);
      for (int64_t i = 0; i < width; ++i) a[i] += b[i];
      fk::store(args.out, t * width, width, a);
    }
  }
};
FK_OP(add, Add);

}  // namespace

FK_PLUGIN("template_add", "0.1.0");
