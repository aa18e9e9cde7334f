// SPDX-License-Identifier: Apache-2.0
// B5: keeps in its instance what plan() has read, and nothing in the blob. In a model one instance
// plans for all layers, so the others would use old data
//
// Stopped by: one instance plans for all sets of buffers
//
// verdict: wrong
//
// naive: - it does not have the op
//
// work: broken
#include "../attack.hpp"
#include "fk/ops/causal_conv1d.h"

namespace {

struct OwnPlan {
  using op = fk::causal_conv1d;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::init& init;
  const op::weights& weights;
  std::vector<int32_t> starts;
  static void supports(const op::init&, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    if (!fk::is_float(max.x) || !fk::is_float(max.conv_state) || !fk::is_float(weights.weight) ||
        !fk::is_float(weights.bias))
      throw fk::unsupported{"f32, bf16 and f16 only"};
    need.plan = 64;
  }
  OwnPlan(const fk_host&, const op::init& i, const op::weights& w) : init(i), weights(w) {}
  void prepare(const op::forward&, const fk_memory&) {}
  int64_t plan(const op::plan& step, void*, int64_t) {
    const auto* all = fk::host<int32_t>(step.cu_seqlens);
    starts.assign(all, all + step.cu_seqlens->shape[0]);
    return 0;
  }
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t width = init.channels, taps = init.kernel_size;
    const auto* slots = fk::data<int32_t>(args.state_slots);
    const auto* goes_on = fk::data<int32_t>(args.has_initial_state);
    const auto n = static_cast<size_t>(width);
    std::vector<float> weight(n * static_cast<size_t>(taps)), bias(n), out(n);
    fk::load(weights.weight, 0, width * taps, weight.data());
    if (weights.bias.or_null) fk::load(weights.bias.or_null, 0, width, bias.data());
    for (size_t b = 0; b + 1 < starts.size(); ++b) {
      const int64_t tokens = starts[b + 1] - starts[b];
      const int64_t state = slots[b] * args.conv_state->strides[0];
      if (tokens == 0) continue;
      // The rows before the first token, and the tokens.
      std::vector<float> rows(n * static_cast<size_t>(taps - 1 + tokens));
      if (goes_on[b])
        for (int64_t u = 0; u + 1 < taps; ++u)
          fk::load(args.conv_state, state + u * args.conv_state->strides[1], width,
                   &rows[static_cast<size_t>(u) * n]);
      for (int64_t t = 0; t < tokens; ++t)
        fk::load(args.x, (starts[b] + t) * args.x->strides[0], width,
                 &rows[static_cast<size_t>(taps - 1 + t) * n]);
      for (int64_t t = 0; t < tokens; ++t) {
        for (size_t c = 0; c < n; ++c) {
          float sum = bias[c];
          for (size_t u = 0; u < static_cast<size_t>(taps); ++u)
            sum += weight[c * static_cast<size_t>(taps) + u] *
                   rows[(static_cast<size_t>(t) + u) * n + c];
          out[c] = init.activation == FK_CAUSAL_CONV1D_ACTIVATION_SILU ? sum / (1 + std::exp(-sum))
                                                                       : sum;
        }
        fk::store(args.out, (starts[b] + t) * width, width, out.data());
      }
      for (int64_t u = 0; u + 1 < taps; ++u)
        fk::store(args.conv_state, state + u * args.conv_state->strides[1], width,
                  &rows[static_cast<size_t>(tokens + u) * n]);
    }
  }
};
FK_OP(causal_conv1d, OwnPlan);

}  // namespace
FK_PLUGIN("b5_plan", "0");
