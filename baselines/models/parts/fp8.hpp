// SPDX-License-Identifier: Apache-2.0
// Checkpoints whose matrices are f8e4m3 with a scale per block, as `quantization_config` says:
// {quant_method: fp8, weight_block_size: [128, 128], activation_scheme: dynamic}.
#pragma once
#include <string>
#include <vector>

#include "core/graph/builder.hpp"
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

// A projection of a layer: emplaces `slot` and, with fp8, `slot`_scale_inv. Parts of one stack
// entry have `part_rows` rows each, so that Error can say where blocks would be shared by two
// parts. `spec` has the shape and the checkpoint names; its dtype is set here.
void add_projection(Args& args, Builder& b, const Fp8& fp8, DType dtype, const std::string& slot,
                    WeightSpec spec, const std::vector<int64_t>& part_rows);

}  // namespace fk::parts
