// SPDX-License-Identifier: Apache-2.0
#include "baselines/models/parts/recurrent.hpp"

#include <limits>

#include "core/base/text.hpp"

namespace fk::parts {

void begin_states(Net& n, const DecoderStep& step) {
  const auto of_requests = [&](const char* name) {
    return n.input(name, DType::i32, {step.requests});
  };
  n.common({{"state_slots", of_requests("state_slots")}});
  if (!step.decode) n.common({{"has_initial_state", of_requests("has_initial_state")}});
}

DecoderStep begin_recurrent_batch(Net& n, const std::string& phase) {
  DecoderStep s;
  s.decode = phase == "decode";
  s.requests = n.axis("B");
  s.tokens = s.decode ? s.requests : n.axis("T");
  s.rows_count = s.decode ? s.requests : n.axis("Q");
  s.max_query_len = s.decode ? Expr(1) : s.tokens;
  n.common({{"cu_seqlens", n.input("cu_seqlens", DType::i32, {s.requests + 1})},
            {"max_query_len", s.max_query_len}});
  begin_states(n, s);
  return s;
}

std::vector<bool> read_linear_layers(const Config& config, int64_t layers) {
  const auto types = config.texts("layer_types");
  if (static_cast<int64_t>(types.size()) != layers)
    config.fail_at("layer_types", "it lists " + std::to_string(types.size()) + " layers of " +
                                      std::to_string(layers));
  std::vector<bool> linear;
  for (const auto& type : types) {
    linear.push_back(type == "linear_attention");
    if (!linear.back() && type != "full_attention")
      config.fail_at("layer_types", "`" + excerpt(type) + "` is not a kind of layer",
                     did_you_mean(type, {"linear_attention", "full_attention"}));
  }
  return linear;
}

Rope unrotated(int64_t rotary_dim) {
  Rope rope;
  rope.rotary_dim = rotary_dim;
  rope.linear_factor = std::numeric_limits<double>::infinity();
  return rope;
}

}  // namespace fk::parts
