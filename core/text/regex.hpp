// SPDX-License-Identifier: Apache-2.0
//
// Regular expressions of tokenizers, which are written for Oniguruma, by PCRE2.

#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace fk::text {

/// A compiled expression. Several threads may use one at the same time.
class Regex {
 public:
  struct Match {
    std::size_t begin = 0, end = 0;
  };

  /// Error at `where` if the expression is not valid, or has a part whose meaning differs between
  /// Oniguruma and PCRE2.
  Regex(std::string_view expression, std::string where);

  /// The first match which begins at byte `from` or later; false if there is none. The text is
  /// valid UTF-8. Error if the search takes too many steps.
  bool find(std::string_view utf8, std::size_t from, Match& match) const;

 private:
  struct Code;
  std::shared_ptr<const Code> code_;
};

}  // namespace fk::text
