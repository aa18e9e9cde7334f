// SPDX-License-Identifier: Apache-2.0
// The choice of a token on the host, for the keys of Sampling which the op sample_tokens lacks. The
// order is vLLM's: penalties, temperature, min_p, top_k, top_p.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/exec/request.hpp"

namespace fk {

class HostSampler {
 public:
  // The next token of a sequence with a prompt of `prompt` tokens. `logits` are one per entry of
  // the vocabulary, and are changed. `uniform` is in [0, 1) (sampling_uniform).
  int64_t choose(std::span<float> logits, const std::vector<int64_t>& tokens, int64_t prompt,
                 const Sampling& sampling, float uniform);

 private:
  std::vector<int64_t> order_;
  std::vector<double> mass_;
  std::vector<int32_t> said_;  // times in the answer, by token; zero between two calls
};

}  // namespace fk
