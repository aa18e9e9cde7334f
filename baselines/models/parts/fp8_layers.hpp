// SPDX-License-Identifier: Apache-2.0
// The products of a decoder's layer whose matrices stay f8e4m3 (DecoderForm::products). `at` is the
// path of a block, `layer` that of its layer.
#pragma once
#include "baselines/models/parts/decoder_form.hpp"

namespace fk::parts {

// Queries, keys and values side by side, [T, (heads + 2 * kv_heads) * width]. `bias` may be absent.
Value fp8_qkv(Net& n, const DecoderForm& form, const std::string& at, const std::string& layer,
              Value bias, Value x);
// The last product of attention.
Value fp8_output(Net& n, const DecoderForm& form, const std::string& at, const std::string& layer,
                 Value bias, Value x);
// A gated MLP of this width, whose products may have biases.
struct Fp8MlpBiases {
  bool up, down;
};
Value fp8_mlp(Net& n, const DecoderForm& form, const std::string& at, const std::string& layer,
              Value x, int64_t size, Fp8MlpBiases biases);

}  // namespace fk::parts
