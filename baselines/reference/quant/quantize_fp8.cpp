// SPDX-License-Identifier: Apache-2.0
// quantize_fp8: codes of f8e4m3 with scales for groups of rows and columns.
#include "fk/ops/quantize_fp8.h"
#include "quantize.hpp"

namespace fk::reference {
namespace {

struct QuantizeFp8 : QuantizeAsIs<QuantizeFp8, quantize_fp8> {
  using QuantizeAsIs::QuantizeAsIs;
  static Groups groups(const op::init& i) {
    return {i.size, i.group_rows, i.group_columns, 448, i.eps, i.power_of_two != 0};
  }
};
FK_OP(quantize_fp8, QuantizeFp8);

}  // namespace
}  // namespace fk::reference
