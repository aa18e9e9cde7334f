// SPDX-License-Identifier: Apache-2.0
//
// From tokens to text.

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/base/json.hpp"

namespace fk::text {

/// Changes tokens. `whole`: no token follows. Otherwise, bytes at the end which begin a character
/// stay as they are.
using Decoder = std::function<std::vector<std::string>(std::vector<std::string>, bool whole)>;

/// Reads a decoder of a tokenizer.json. Error for a type which is not known.
Decoder read_decoder(const Config& config);

}  // namespace fk::text
