// SPDX-License-Identifier: Apache-2.0
// T5's encoder of texts, in transformers' names. A bias for each head and distance of two tokens
// stands in for positions.
#pragma once
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/exec/model.hpp"

namespace fk::parts {

struct T5Text {
  int64_t hidden = 0, layers = 0, heads = 0, width = 0, mlp = 0;  // width: of a head
  int64_t vocabulary = 0;
  int64_t buckets = 0, farthest = 0;  // kinds of distances; longer ones are of the last kind
  double eps = 0;
};
T5Text read_t5_text(const Config& config);

// The kind of the distance from a query to a key, below `buckets`.
int64_t t5_bucket(int64_t distance, int64_t buckets, int64_t farthest);

// [B * S, hidden]: normed states behind the last layer, of tokens [B, S] in int64. S is a number.
// All tokens see each other, with the mask [B, 1, S] where it is given. Taps are `path`.i behind
// layer i.
Value t5_states(Net& n, const std::string& path, const T5Text& c, Value tokens, Value mask = {});
// Further names of the embedding.
std::vector<Model::Unread> unread_t5(const std::string& path);

}  // namespace fk::parts
