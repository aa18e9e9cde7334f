// SPDX-License-Identifier: Apache-2.0
// Reads the fp8 block quantization of a checkpoint from its config.
#include "baselines/models/parts/fp8.hpp"

namespace fk::parts {

Fp8 read_fp8(const Config& config) {
  const Quantization q = Quantization::of(config);
  Fp8 fp8;
  fp8.on = q.method == "fp8" && q.block_rows > 0;
  if (!fp8.on) return fp8;
  fp8.rows = q.block_rows;
  fp8.columns = q.block_columns;
  if (q.inputs == "static")
    config.child("quantization_config")
        .fail_at("activation_scheme", "`static` is not supported beside blocks", "dynamic, none");
  fp8.quantize_input = q.inputs == "dynamic";
  return fp8;
}

}  // namespace fk::parts
