// SPDX-License-Identifier: Apache-2.0
// Reads texts with a model which learns from each text while it reads. A text is cut into chunks.
// Each chunk but the last one is computed, and then the model takes a step of descent on its loss.
// So the next chunk meets other weights. These weights are states of the model, and each text
// begins with those of the checkpoint. One text is read at a time.
//
//   phase   axes   work
//   begin   none   states get the weights of the checkpoint
//   learn   T, A   a chunk, its gradients and a step
//   score   T, A   the last chunk, after which nobody reads the weights
//
// T is the number of tokens of a chunk, A that of earlier tokens which it sees, at most a window.
// The inputs of learn and score are ids, targets and positions [T] i64, and cu_seqlens_q and
// cu_seqlens_k [2] i32. The phase learn also has loss_grad [T] f32, the gradients of the tokens'
// losses: 1/T, for their mean. The target of a token is the token behind it, and the last one's is
// itself. The output `logprobs` [T] f32 has the logarithms of the targets' probabilities. A text
// of n tokens has the result `logprobs` [n-1, 1].
#pragma once
#include <memory>

#include "core/exec/engine.hpp"

namespace fk {

struct AdaptOptions {
  int64_t vocabulary = 0, positions = 0;  // RequestForm's
  int64_t chunk = 1, window = 1;          // tokens
};
std::unique_ptr<Engine> adapt_engine(AdaptOptions options);

}  // namespace fk
