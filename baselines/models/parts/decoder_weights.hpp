// SPDX-License-Identifier: Apache-2.0
// Weights of a decoder which no contract names: computed tables, and weights of blocks without an
// op.
#pragma once
#include "baselines/models/parts/decoder_form.hpp"

namespace fk::parts {

// The table of a rope, [positions, rotary_dim].
WeightSpec rope_weight(const DecoderForm& form, size_t rope, int64_t positions);
// [positions, head_dim]: a rotary table which multiplies queries by a factor of their position.
WeightSpec query_scale_weight(const DecoderForm& form, int64_t positions);
// Ones, [head_dim]: the weight of a norm over heads in a model without this weight.
WeightSpec ones_weight(const DecoderForm& form, DType dtype);
// The slopes of this rank's heads.
WeightSpec alibi_weight(const DecoderForm& form, const Parallel& parallel);
// The matrix of q, k or v (`which`: 0, 1, 2), or its bias. It has the rows of this rank's heads.
WeightSpec qkv_weight(const DecoderForm& form, const std::string& layer, size_t which, bool bias,
                      const Limits& limits);
// The matrix at `path` which makes the gate of attention. It has the rows of this rank's heads.
WeightSpec output_gate_weight(const DecoderForm& form, const std::string& path,
                              const Limits& limits);
// This rank's part of the biases of gate and up, side by side. `names` are the two products' names.
WeightSpec gate_up_bias(const std::string& at, const std::vector<std::string>& names, int64_t size,
                        const Limits& limits);

}  // namespace fk::parts
