// SPDX-License-Identifier: Apache-2.0
// Decoders of descriptions which fill masks in any order (key `diffusion`).
#pragma once
#include <memory>

#include "baselines/models/parts/decoder_form.hpp"
#include "core/exec/model.hpp"

namespace fk::parts {

// Reads the key into the form, whose other parts have been read. Error if layers have not Llama's
// form.
void read_diffusion(const Config& description, const Config& config, DecoderForm& form);
std::unique_ptr<Model> make_diffusion(DecoderForm form);

}  // namespace fk::parts
