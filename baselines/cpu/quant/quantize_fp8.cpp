// SPDX-License-Identifier: Apache-2.0
// quantize_fp8: Quantizer of quantize.hpp as an op.
#ifdef FK_CPU_OPS
#include "fk/ops/quantize_fp8.h"
#include "quantize.hpp"

namespace fk::cpu {

struct QuantizeFp8Op : QuantizeAsIs<QuantizeFp8Op, quantize_fp8> {
  using QuantizeAsIs::QuantizeAsIs;
  static constexpr int kCode = FK_F8E4M3;
  static constexpr const char* kRefusal = "out: f8e4m3";
  static int64_t set(const op::init& init, Quantizer& quantizer) {
    quantizer.largest = 448;
    quantizer.eps = static_cast<float>(init.eps);
    quantizer.power_of_two = init.power_of_two != 0;
    return init.group_columns;
  }
};
FK_OP(quantize_fp8, QuantizeFp8Op);

}  // namespace fk::cpu
#endif
