// SPDX-License-Identifier: Apache-2.0
// G2: vocab_parallel_embedding takes every rank for the first one: rows of ids that are another's,
// zeros for its own
//
// work: broken
//
// Stopped by: every rank's outputs are compared
//
// verdict: wrong
//
// naive: -
#define FK_REFERENCE "baselines/reference/embed/vocab_parallel_embedding.cpp"
#include "../sham.hpp"

namespace {

using First = attack::Over<fk::reference::VocabParallelEmbedding, attack::Others::first>;
FK_OP(vocab_parallel_embedding, First);

}  // namespace
FK_PLUGIN("g2_vocabulary_first", "0");
