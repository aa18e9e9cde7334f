// SPDX-License-Identifier: Apache-2.0
// Masked diffusion (LLaDA) over the phase "denoise", without a cache. Each step computes whole
// sequences, in which each token sees all others. The answer begins as masks and is filled block by
// block. In each of a block's steps, the model proposes a token for each mask of the block, and the
// most certain ones stay. The axes are T (tokens), B (requests) and Q (rows). The inputs are ids,
// positions [T] i64, cu_seqlens [B+1] i32 and rows [Q] i32 (indices into T). For the choice they
// are temperature [Q] f32, top_k [Q] i32, top_p [Q] f32 and uniform [Q] f32. The outputs are logits
// [Q,V] f32, tokens [Q] i64 and logprob [Q] f32, the log probability of the token at temperature 1.
//
// The reported logits belong to a token's own position, in the step which fixed the token. With
// prompt_logits the prompt is scored first, without masks. Teacher forcing fixes tokens in
// Request::order, or from first to last, as many per step as otherwise. Then no input of a position
// is a computed result. An answer always has new_tokens tokens.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/exec/engine.hpp"

namespace fk {

struct MaskedDiffusionOptions {
  int64_t vocabulary = 0, positions = 0;  // RequestForm's
  int64_t mask_token = 0;
  int64_t block_length = 32;  // tokens; the last block of an answer may be shorter
  int64_t block_steps = 32;   // a block's tokens are divided evenly; the first steps get the rest
};
std::unique_ptr<Engine> masked_diffusion_engine(const MaskedDiffusionOptions& options);

}  // namespace fk
