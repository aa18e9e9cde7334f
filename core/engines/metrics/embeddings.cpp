// SPDX-License-Identifier: Apache-2.0
// Vectors of texts or of tokens: all values are compared.
#include "core/engines/metrics/values.hpp"

namespace fk {

namespace {

class EmbeddingsMetric final : public ValueMetric {};

FK_METRIC(embeddings, EmbeddingsMetric);

}  // namespace

}  // namespace fk
