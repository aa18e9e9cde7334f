// SPDX-License-Identifier: Apache-2.0
#include "core/cases/generator_text.hpp"

#include "core/base/error.hpp"
#include "core/base/text.hpp"

namespace fk {

GeneratorText GeneratorText::parse(const std::string& text, const std::string& where) {
  GeneratorText out;
  const auto open = text.find('(');
  out.name = trim(text.substr(0, open));
  if (open == std::string::npos) return out;
  if (trim(text).back() != ')') fail(where, "`" + text + "` is not a generator", "name(a, b)");
  std::string arg;
  int depth = 0;
  for (size_t i = open + 1; i < text.rfind(')'); ++i) {
    depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    if (text[i] == ',' && depth == 0) {
      out.args.emplace_back(trim(arg));
      arg.clear();
    } else {
      arg += text[i];
    }
  }
  if (!trim(arg).empty()) out.args.emplace_back(trim(arg));
  return out;
}

}  // namespace fk
