// SPDX-License-Identifier: Apache-2.0
// The largest logit of a row, and the sum of exp(logit - largest). From both a caller computes the
// logarithm of a token's probability: logit - largest - log(sum). The kernel is in
// sampling/token_logprob.cpp.
#pragma once
#include "level.hpp"

namespace fk::cpu {
struct LogSum {
  const void* logits;  // one row
  int64_t vocabulary;
  int type;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(log_sum, const LogSum&, float* top, float* total)
