// SPDX-License-Identifier: Apache-2.0
// The boundary to terminals. Plugins, files and cases have names and words of strangers in them.
// Nothing of these may steer a terminal or turn other text around.
#pragma once
#include <string>
#include <string_view>

namespace fk {

// The text as a terminal gets it: `?` for what is not safe to show (printable() of base/text.hpp),
// but for line ends, tabs and the host's own styles.
std::string for_terminal(std::string_view text);

// From now on all that this process writes to stdout and stderr by stdio passes for_terminal().
void guard_terminal();

}  // namespace fk
