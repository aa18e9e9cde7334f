// SPDX-License-Identifier: Apache-2.0
// The largest of a row of logits and the sum of exponentials below it: what turns a logit into the
// logarithm of a probability. The kernel is in token_logprob.cpp.
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
