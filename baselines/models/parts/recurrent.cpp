// SPDX-License-Identifier: Apache-2.0
#include "baselines/models/parts/recurrent.hpp"

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

}  // namespace fk::parts
