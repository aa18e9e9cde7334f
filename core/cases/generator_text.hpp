// SPDX-License-Identifier: Apache-2.0
// The text of a generator in a contract: "lens(cu_seqlens, W*Z)" is `lens` with two arguments.
#pragma once
#include <string>
#include <vector>

namespace fk {

struct GeneratorText {
  std::string name;
  std::vector<std::string> args;

  // Error at `where` when a parenthesis is missing.
  static GeneratorText parse(const std::string& text, const std::string& where);
};

}  // namespace fk
