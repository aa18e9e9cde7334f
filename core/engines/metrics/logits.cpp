// SPDX-License-Identifier: Apache-2.0
// Logits of given tokens, or of classes: all values are compared.
#include "core/engines/metrics/values.hpp"

namespace fk {

namespace {

class LogitsMetric final : public ValueMetric {};

FK_METRIC(logits, LogitsMetric);

}  // namespace

}  // namespace fk
