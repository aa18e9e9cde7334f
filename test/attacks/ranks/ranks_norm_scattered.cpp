// SPDX-License-Identifier: Apache-2.0
// honest: several ranks: all_reduce_add_rms_norm as reduce_scatter, the norm of a rank's own
// tokens, and all_gather of the result and the residual. Tokens are padded to the same number on
// every rank
#include <cmath>

#include "../letters.hpp"
#include "fk/ops/all_reduce_add_rms_norm.h"

namespace {

// Floats that own their view.
struct Rows : attack::Words {
  explicit Rows(int64_t count) : Words(count) { view.dtype = {2, 32, 1}; }
  float* at(int64_t i) { return fk::data<float>(&view) + i; }
};

struct Scattered {
  using op = fk::all_reduce_add_rms_norm;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::init& init;
  const op::weights& weights;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need&) {
    if (!init.comm) throw fk::unsupported{"there is one rank"};
    if (!fk::is_float(max.x) || !fk::is_float(weights.weight) || !fk::is_float(max.residual))
      throw fk::unsupported{"f32, bf16 and f16 only"};
  }
  Scattered(const fk_host&, const op::init& i, const op::weights& w) : init(i), weights(w) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) const {
    const fk_comm* comm = init.comm;
    const int64_t width = init.hidden_size, tokens = args.x->shape[0];
    const int64_t part = (tokens + comm->size - 1) / comm->size, first = comm->rank * part;
    Rows all(comm->size * part * width), sum(part * width), residuals(all.shape);
    fk::load(args.x, 0, tokens * width, all.at(0));
    attack::must(comm,
                 comm->reduce_scatter(comm, fk_as_in(&all.view), &sum.view, FK_SUM, ctx.stream));
    std::vector<float> row(static_cast<size_t>(width)), gain(row.size());
    fk::load(weights.weight, 0, width, gain.data());
    Rows out(sum.shape);
    for (int64_t t = 0; t < part && first + t < tokens; ++t) {
      fk::load(args.residual, (first + t) * width, width, row.data());
      float squares = 0;
      for (int64_t c = 0; c < width; ++c) {
        float& x = *sum.at(t * width + c);
        x += row[static_cast<size_t>(c)];
        squares += x * x;
      }
      const float scale =
          1 / std::sqrt(squares / static_cast<float>(width) + static_cast<float>(init.eps));
      for (int64_t c = 0; c < width; ++c)
        *out.at(t * width + c) = *sum.at(t * width + c) * scale * gain[static_cast<size_t>(c)];
    }
    attack::must(comm, comm->all_gather(comm, fk_as_in(&sum.view), &residuals.view, ctx.stream));
    attack::must(comm, comm->all_gather(comm, fk_as_in(&out.view), &all.view, ctx.stream));
    fk::store(args.residual, 0, tokens * width, residuals.at(0));
    fk::store(args.out, 0, tokens * width, all.at(0));
  }
};
FK_OP(all_reduce_add_rms_norm, Scattered);

}  // namespace
FK_PLUGIN("ranks_norm_scattered", "0");
