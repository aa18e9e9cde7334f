// SPDX-License-Identifier: Apache-2.0
#include "core/cli/output.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/base/io.hpp"

namespace fk {

void print_json(const Json& document, const std::string& file) {
  const std::string text = document.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  if (file.empty() || file == "-")
    std::fputs(text.c_str(), stdout);
  else
    write_file_atomic(file, text);
}

}  // namespace fk
