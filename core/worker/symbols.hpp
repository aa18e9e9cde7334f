// SPDX-License-Identifier: Apache-2.0
// Names for places in a plugin: the loader knows only exported symbols, the file's own table knows
// all functions.
#pragma once
#include <filesystem>
#include <string>

namespace fk {

// Writes the function's name behind every "stem-HASH.so+0x1139" or "stem.so+0x1139" of `text` that
// is in `file`. Unchanged where the file has no symbol table or is not readable; never throws.
std::string with_symbols(const std::string& text, const std::filesystem::path& file);

}  // namespace fk
