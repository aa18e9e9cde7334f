// SPDX-License-Identifier: Apache-2.0
// Speculation (EAGLE-3): a draft guesses a tree of tokens, and a target checks it. Sampled or
// greedy, the result equals generate() with the target alone. Phases:
//   prefill  the target over prompts: generate()'s inputs and outputs. Leaves the hidden states
//            for the draft in a state [T,..], row by row
//   verify   the target over all trees of a step: the same, with tree_lens [B] i32 and tree_mask
//            [T,TW] i32 (see the op tree_attention). Each node is a row, Q = T
//   accept   moves keys and values of the target's caches: from_slots, to_slots [M] i64
//   extend   the draft over the target's results: ids (of the token after each position),
//            positions, slot_mapping, block_tables, cu_seqlens, seq_lens as in prefill, aux_rows
//            [T] i32 (rows of that state), rows [Q] i32 (tokens to guess from), state_rows
//            [Q] i32 (rows for their hidden states); outputs tokens [Q,K] i64, logprobs [Q,K] f32
//   draft    the draft over a level of all trees: the same inputs with tree_lens, tree_mask and
//            hidden_rows [T] i32 (the parents' hidden states) in place of aux_rows, state_rows [T];
//            outputs tokens [T,K], logprobs [T,K]
// Target and draft have the same cache pages. A request's nodes are behind its context, so the
// caches need slots() more per request.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/exec/engine.hpp"

namespace fk {

struct SpeculateOptions {
  int64_t vocabulary = 0, positions = 0;  // RequestForm's
  std::vector<int64_t> eos;
  int64_t depth = 6;    // levels below the root
  int64_t top_k = 10;   // guesses below a node, and expanded nodes of a level
  int64_t tokens = 60;  // nodes that the target checks, with the root
  // Most nodes of a request that the draft expands. The hidden state of each is kept.
  int64_t expansions() const { return top_k * (depth - 1); }
  // Slots behind a request's context that one round may write.
  int64_t slots() const { return tokens > expansions() ? tokens : expansions(); }
};
std::unique_ptr<Engine> speculate_engine(const SpeculateOptions& options);

}  // namespace fk
