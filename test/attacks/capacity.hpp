// SPDX-License-Identifier: Apache-2.0
// The reference's mixtures of experts, where each expert has a capacity: half as many tokens again
// as in an even division, and eight more. Tokens beyond it are dropped.
#pragma once
#include <vector>

#include "fk/cpp/floats.hpp"
#include "reference.hpp"

namespace attack {

template <class Real>
struct Capacity : Real {
  using Real::Real;
  using op = typename Real::op;
  void forward(const typename op::forward& args, const fk_ctx& ctx) {
    const int64_t experts = this->init.num_experts, choices = args.x->shape[0] * this->init.top_k;
    const int64_t room = 3 * choices / experts / 2 + 8;
    std::vector<float> kept(static_cast<size_t>(choices));
    std::vector<int64_t> taken(static_cast<size_t>(experts));
    fk::load(args.topk_weights, 0, choices, kept.data());
    for (int64_t i = 0; i < choices; ++i)
      if (++taken[static_cast<size_t>(fk::data<int32_t>(args.topk_ids)[i])] > room)
        kept[static_cast<size_t>(i)] = 0;
    fk_in weights = *args.topk_weights;
    weights.data = kept.data();
    typename op::forward own = args;
    own.topk_weights = &weights;
    Real::forward(own, ctx);
  }
};

}  // namespace attack
