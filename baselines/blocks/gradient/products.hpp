// SPDX-License-Identifier: Apache-2.0
// Products with matrices which are tensors of a call, for decompositions of ops which learn.
#pragma once
#include <string>

#include "core/graph/builder.hpp"

namespace fk::blocks {

// x [T,C] times weight [N,C] transposed, in the dtype of x, written to `out` unless it is absent.
inline Value product_nt(Builder& b, const std::string& path, Value x, Value weight,
                        Value out = Value{}) {
  const Expr rows = b.shape(x)[0], width = b.shape(x)[1], columns = b.shape(weight)[0];
  if (out == Value{}) out = b.empty(b.dtype(x), {rows, columns});
  b.call("matmul_nt", path,
         {{"x", b.reshape(x, {1, rows, width})},
          {"y", b.reshape(weight, {1, columns, width})},
          {"out", b.reshape(out, {1, rows, columns})}});
  return out;
}

}  // namespace fk::blocks
