// SPDX-License-Identifier: Apache-2.0
// Checks that a GPU can run this build's code. Without the check the first kernel would fail with a
// driver error that names neither the GPU nor the build.
#pragma once
#include <algorithm>
#include <cctype>
#include <string>

#include "core/base/text.hpp"

namespace fk {

// Empty if a GPU of this compute capability can run code for one of the architectures in `built`,
// else a sentence. `built` is in CMake's spelling, separated by blanks ("90a 100f 80-real"). `90a`
// runs on 9.0 only. `100f` runs on its major number, from 10.0 on. Other entries also contain PTX,
// which later GPUs accept, unless they end in `-real`.
inline std::string built_for_refusal(const std::string& built, int major, int minor) {
  const auto runs = [&](std::string_view arch) {
    std::string word(arch);
    const bool real = ends_with(word, "-real"), with_ptx = !real;
    word = word.substr(0, word.find('-'));
    const char letter = word.empty() ? '\0' : word.back();
    const bool exact = letter == 'a', family = letter == 'f';
    word.erase(
        std::find_if_not(word.begin(), word.end(), [](unsigned char c) { return std::isdigit(c); }),
        word.end());
    if (word.empty() || word.size() > 4) return true;  // `native`, `all`: built for this machine
    const int of = std::stoi(word), here = 10 * major + minor;
    if (exact) return here == of;
    if (family || !with_ptx) return here >= of && here / 10 == of / 10;
    return here >= of;
  };
  for (const auto& arch : split(built, ' '))
    if (runs(arch)) return "";
  return "it has the compute capability " + std::to_string(major) + "." + std::to_string(minor) +
         ", and this build has code for " + built + " alone";
}

}  // namespace fk
