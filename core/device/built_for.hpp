// SPDX-License-Identifier: Apache-2.0
// Whether a GPU can run what this program was built with. Without the question the first kernel
// would fail, with an error of the driver that names neither.
#pragma once
#include <algorithm>
#include <cctype>
#include <string>

#include "core/base/text.hpp"

namespace fk {

// Empty if a GPU of this compute capability can run code for the architectures in `built`, as CMake
// writes them with blanks between ("90a 100f 80-real"); else a sentence. One with a letter runs
// where it was built for and nowhere else (of a family, `f`, on later ones of the same major
// number); one without is there as PTX as well, which later GPUs take, unless it is `-real`.
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
    if (word.empty() || word.size() > 4) return true;  // `native`, `all`: made for what is here
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
