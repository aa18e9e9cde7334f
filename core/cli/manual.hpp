// SPDX-License-Identifier: Apache-2.0
// Man pages and completions, from the same declarations that parse the command line.
#pragma once
#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace fk {

// True for the word that asks for a manual: `--manual=WHAT`.
bool is_manual(std::string_view word);

// `what` is man, man:VERB, bash, zsh, fish, or verbs for their names, one a line. All verbs of `app` have their options. A page is in
// the language of troff, for section 1. Error for another word.
std::string manual_text(const CLI::App& app, const std::string& what);

}  // namespace fk
