// SPDX-License-Identifier: Apache-2.0
//
// The alphabet of byte-level tokens: one visible character for each byte, as GPT-2 chose them.

#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace fk::text {

/// The character for a byte, in UTF-8.
const std::string& letter_of(unsigned char byte);

/// The bytes of a token; nothing if the token has a character outside of the alphabet.
std::optional<std::string> bytes_of(std::string_view token);

}  // namespace fk::text
