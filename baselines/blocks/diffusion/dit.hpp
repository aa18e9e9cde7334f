// SPDX-License-Identifier: Apache-2.0
// Parts which decompositions of a diffusion transformer's layers share.
#pragma once
#include <string>

#include "core/graph/builder.hpp"

namespace fk::dit {

// Vectors of an embedded time, [B, count * C] by rows, of which parts are looked at.
struct Modulation {
  Value rows;
  int64_t channels;
};
// The rows of the weight `name`, behind a silu of temb. `silu`: silu(temb).
Modulation modulation(Builder& b, const Region& r, const std::string& name, const std::string& path,
                      Value silu);
Value silu_of_time(Builder& b, const Region& r);

// norm(x) * (1 + scale) + shift for x [B, T, C], where vector `first` is the shift and the next one
// the scale.
Value modulated_norm(Builder& b, const Region& r, const std::string& path, const Modulation& m,
                     int64_t first, Value x);
// x + gate * y for x and y [B, T, C], where vector `which` is the gate. `out` may be absent.
Value gated_sum(Builder& b, const Region& r, const std::string& path, const Modulation& m,
                int64_t which, Value x, Value y, Value out = {});

// The fields of a stream's projections. Absent norms are Value{}.
struct Stream {
  Value qkv, qkv_bias, q_norm, k_norm;
};
// Queries, keys and values of x [B, T, C], behind the norms of heads: [B, T, 3 * H * D].
Value projected(Builder& b, const Region& r, const std::string& path, const Stream& s, Value x);
// [B, T, H * D] of qkv [B, T, 3 * H * D]. The region's rope turns queries and keys. A token sees
// all tokens of its image, with the region's mask.
Value attention(Builder& b, const Region& r, const std::string& path, Value qkv);
// Tokens [start, start + count) of x [B, T, C], dense.
Value tokens(Builder& b, const std::string& path, Value x, const Expr& start, const Expr& count);
Value by_rows(Builder& b, Value x);  // [B * T, C] of [B, T, C]

}  // namespace fk::dit
