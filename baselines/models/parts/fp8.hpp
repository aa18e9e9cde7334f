// SPDX-License-Identifier: Apache-2.0
// Checkpoints whose matrices are f8e4m3 with a scale per block, as `quantization_config` says:
// {quant_method: fp8, weight_block_size: [128, 128], activation_scheme: dynamic}.
#pragma once
#include "core/exec/model.hpp"

namespace fk::parts {

struct Fp8 {
  bool on = false;
  int64_t rows = 128, columns = 128;  // of a block
  // `dynamic`: inputs are rounded to f8e4m3 too. Without the key only the weights are.
  bool quantize_input = false;
};

// Off where matrices become floats when they are read: without a quantization_config, and with one
// that declares no blocks of fp8.
Fp8 read_fp8(const Config& config);

}  // namespace fk::parts
