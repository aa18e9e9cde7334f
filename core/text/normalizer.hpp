// SPDX-License-Identifier: Apache-2.0
//
// Changes a text before it is cut into words.

#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/base/json.hpp"

namespace fk::text {

/// From valid UTF-8 to valid UTF-8.
using Normalizer = std::function<std::string(std::string_view)>;

/// Reads a normalizer of a tokenizer.json. Error for a type which is not known.
Normalizer read_normalizer(const Config& config);

/// SentencePiece's table of replacements, base64 in `precompiled_charsmap`.
Normalizer read_precompiled(const Config& config);

}  // namespace fk::text
