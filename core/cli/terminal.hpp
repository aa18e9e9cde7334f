// SPDX-License-Identifier: Apache-2.0
// Protects terminals. Names and texts of plugins, files and cases are untrusted. They must not
// control a terminal, or reverse other text.
#pragma once
#include <string>
#include <string_view>

namespace fk {

// The text for a terminal: unsafe characters become `?` (printable() of base/text.hpp). Line ends,
// tabs and the host's own styles stay.
std::string for_terminal(std::string_view text);

// All later output of this process to stdout and stderr through stdio passes for_terminal().
void guard_terminal();

}  // namespace fk
