// SPDX-License-Identifier: Apache-2.0
// Recurrent parts of a block: their forms for many tokens and for one token of each request.
#pragma once
#include "core/graph/builder.hpp"

namespace fk {

// Known when the phase is recorded: a capture-constant bound of 1 and no word about fresh states.
inline bool one_token(Builder& b, const Region& r) {
  const Expr bound = r.scalar("max_query_len");
  return bound.is_constant() && bound.value() == 1 && !r.has("has_initial_state") &&
         b.shape(r["x"])[0] == b.shape(r["state_slots"])[0];
}

// Records `one` or `many`. Without a word about fresh states the form for many tokens takes all as
// there: any numbers that are not 0 say so, and the end of a request that has tokens is one.
inline Outputs recurrent_part(Builder& b, const Region& r, const char* one, const char* many,
                              const char* path, Args args) {
  if (one_token(b, r)) return r.call(b, one, path, std::move(args));
  const Expr requests = b.shape(r["state_slots"])[0];
  if (!r.has("has_initial_state"))
    args.emplace_back("has_initial_state", b.slice(r["cu_seqlens"], 0, 1, requests));
  return r.call(b, many, path, std::move(args));
}

}  // namespace fk
