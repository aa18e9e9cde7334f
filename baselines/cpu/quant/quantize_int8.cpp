// SPDX-License-Identifier: Apache-2.0
// quantize_int8: Quantizer of quantize.hpp as an op.
#ifdef FK_CPU_OPS
#include "fk/ops/quantize_int8.h"
#include "quantize.hpp"

namespace fk::cpu {

struct QuantizeInt8Op : QuantizeAsIs<QuantizeInt8Op, quantize_int8> {
  using QuantizeAsIs::QuantizeAsIs;
  static constexpr int kCode = FK_I8;
  static constexpr const char* kRefusal = "out: i8";
  static int64_t set(const op::init& init, Quantizer& quantizer) {
    quantizer.largest = 127;
    return init.size;
  }
};
FK_OP(quantize_int8, QuantizeInt8Op);

}  // namespace fk::cpu
#endif
