// SPDX-License-Identifier: Apache-2.0
// Candidates of linear_all_reduce: one that is right, and one that leaves the sum out.
#include <stdexcept>

#include "fk/cpp/plugin.hpp"
#include "fk/ops/linear_all_reduce.h"

namespace {

enum Mode { summed, alone };

struct Product {
  using op = fk::linear_all_reduce;
  static constexpr fk_claims claims = fk::cpu_claims;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    if (!init.comm || FK_DTYPE(max.x) != FK_F32) throw fk::unsupported{"x: float32 only"};
  }
  Product(const fk_host&, const op::init& i, const op::weights& w) : init(i), weights(w) {}
  void prepare(const op::forward&, const fk_memory&) {}

  void forward(const op::forward& args, const fk_ctx& ctx) {
    const auto *x = fk::data<float>(args.x), *weight = fk::data<float>(weights.weight);
    auto* out = fk::data<float>(args.out);
    const int64_t k = init.in_features, n = init.out_features;
    for (int64_t i = 0; i < args.x->shape[0]; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t at = 0; at < k; ++at) sum += double(x[i * k + at]) * weight[j * k + at];
        out[i * n + j] = static_cast<float>(sum);
      }
    if (MODE == alone) return;
    const fk_comm* comm = init.comm;
    if (comm->all_reduce(comm, fk_as_in(args.out), args.out, FK_SUM, ctx.stream) != FK_OK)
      throw std::runtime_error(comm->error(comm));
  }

 private:
  const op::init& init;
  const op::weights& weights;
};
FK_OP(linear_all_reduce, Product);

}  // namespace

#define FK_TEXT_OF(x) #x
#define FK_TEXT(x) FK_TEXT_OF(x)
FK_PLUGIN("product_" FK_TEXT(MODE), "1");
