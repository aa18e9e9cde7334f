// SPDX-License-Identifier: Apache-2.0
// Names for places in a plugin. The loader knows only exported symbols; the file's own table has
// all functions.
#pragma once
#include <filesystem>
#include <string>

namespace fk {

// Appends the function's name to every "stem-HASH.so+0x1139" or "stem.so+0x1139" in `text` that
// lies in `file`. Leaves the text unchanged if the file has no symbol table or is unreadable. Never
// throws.
std::string with_symbols(const std::string& text, const std::filesystem::path& file);

}  // namespace fk
