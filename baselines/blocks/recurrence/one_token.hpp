// SPDX-License-Identifier: Apache-2.0
// Recurrent parts of a block: their forms for many tokens and for one token of each request.
#pragma once
#include "core/graph/builder.hpp"

namespace fk {

// True if every request has one token and a state. Recording knows this by a capture-constant
// `max_query_len` of 1 and an absent `has_initial_state`.
inline bool one_token(Builder& b, const Region& r) {
  const Expr bound = r.scalar("max_query_len");
  return bound.is_constant() && bound.value() == 1 && !r.has("has_initial_state") &&
         b.shape(r["x"])[0] == b.shape(r["state_slots"])[0];
}

// Records the op `one` or the op `many`. Without `has_initial_state` every request has a state, and
// `many` needs a non-zero number for each request. The ends of requests in cu_seqlens are such
// numbers, because every request has tokens.
inline Outputs recurrent_part(Builder& b, const Region& r, const char* one, const char* many,
                              const char* path, Args args) {
  if (one_token(b, r)) return r.call(b, one, path, std::move(args));
  const Expr requests = b.shape(r["state_slots"])[0];
  if (!r.has("has_initial_state"))
    args.emplace_back("has_initial_state", b.slice(r["cu_seqlens"], 0, 1, requests));
  return r.call(b, many, path, std::move(args));
}

}  // namespace fk
