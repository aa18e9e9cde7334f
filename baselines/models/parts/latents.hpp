// SPDX-License-Identifier: Apache-2.0
// Attention over a cache of latents, as DeepSeek-V2 began it. With an indexer, a token sees the
// positions of the largest scores alone; layers may share the choice of an earlier one.
#pragma once
#include "baselines/models/parts/decoder_form.hpp"

namespace fk::parts {

// Reads form.latent. The heads of `form` are read before.
void read_latents(const Config& description, const Config& config, DecoderForm& form);

// The attention of a layer at the path `at`, of x [T,C]. `chosen`: the positions that tokens of an
// earlier layer see; a layer with an indexer of its own replaces them.
Value latent_attention(Net& n, const DecoderForm& form, const std::string& at, int64_t layer,
                       Value x, Value cos_sin, Value& chosen);

}  // namespace fk::parts
