// SPDX-License-Identifier: Apache-2.0
// wrong: the halves of a head are exchanged
// hint: halves
// says: the halves of every row are exchanged
// bench: --size smoke --case smoke0
// next: The values are right at wrong positions. Check index and strides of loads and stores.
#include "attention.hpp"

namespace {

struct Halves : hints::Attention {
  using Attention::Attention;
  Row result(Row row) const override {
    std::rotate(row.begin(), row.begin() + init.head_dim / 2, row.end());
    return row;
  }
};
FK_OP(attention_varlen, Halves);

}  // namespace
FK_PLUGIN("wrong_halves", "0");
