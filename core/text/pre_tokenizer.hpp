// SPDX-License-Identifier: Apache-2.0
//
// Cuts a text into words, of which the model makes tokens.

#pragma once

#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.hpp"

namespace fk::text {

/// A part of a text: valid UTF-8 and not empty.
struct Piece {
  std::string_view text;
  bool first = false;  ///< the whole input begins with it
};

/// Texts made by pre-tokenizers. They stay where they are when more are added.
using Texts = std::deque<std::string>;

/// Appends the parts of a piece.
using PreTokenizer = std::function<void(const Piece&, Texts&, std::vector<Piece>&)>;

/// Reads a pre-tokenizer of a tokenizer.json. Error for a type which is not known.
PreTokenizer read_pre_tokenizer(const Config& config);

/// A `ByteLevel` is the pre-tokenizer or the last one of a sequence. Error if it has another place.
bool makes_bytes(const Config& config);

}  // namespace fk::text
