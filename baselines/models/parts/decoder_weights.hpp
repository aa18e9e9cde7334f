// SPDX-License-Identifier: Apache-2.0
// Weights of a decoder that no contract names: tables that are computed, and parts of blocks that
// have no op.
#pragma once
#include "baselines/models/parts/decoder_form.hpp"

namespace fk::parts {

// The table of a rope, [positions, rotary_dim].
WeightSpec rope_weight(const DecoderForm& form, size_t rope, int64_t positions);
// A table that multiplies queries by a factor of their position, [positions, head_dim].
WeightSpec query_scale_weight(const DecoderForm& form, int64_t positions);
// [head_dim], for a norm over heads without a weight.
WeightSpec ones_weight(const DecoderForm& form, DType dtype);
// The slopes of this rank's heads.
WeightSpec alibi_weight(const DecoderForm& form, const Parallel& parallel);
// The product that makes q, k or v (`which`: 0, 1, 2), or its bias: rows of this rank's heads.
WeightSpec qkv_weight(const DecoderForm& form, const std::string& layer, size_t which, bool bias,
                      const Limits& limits);
// The product at `path` that gates attention: rows of this rank's heads.
WeightSpec output_gate_weight(const DecoderForm& form, const std::string& path,
                              const Limits& limits);
// Biases of gate and up side by side, this rank's part. `names` are those of the two products.
WeightSpec gate_up_bias(const std::string& at, const std::vector<std::string>& names, int64_t size,
                        const Limits& limits);

}  // namespace fk::parts
