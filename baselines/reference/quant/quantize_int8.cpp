// SPDX-License-Identifier: Apache-2.0
// quantize_int8: codes of int8 with a scale for a group of rows.
#include "fk/ops/quantize_int8.h"
#include "quantize.hpp"

namespace fk::reference {
namespace {

struct QuantizeInt8 : QuantizeAsIs<QuantizeInt8, quantize_int8> {
  using QuantizeAsIs::QuantizeAsIs;
  static Groups groups(const op::init& i) { return {i.size, i.group_rows, i.size, 127, 0, false}; }
};
FK_OP(quantize_int8, QuantizeInt8);

}  // namespace
}  // namespace fk::reference
