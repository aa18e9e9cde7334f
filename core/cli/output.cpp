// SPDX-License-Identifier: Apache-2.0
#include "core/cli/output.hpp"

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/text.hpp"

namespace fk {

namespace {

namespace fs = std::filesystem;

// For a device or a pipe: writes into it, and does not replace it by a file.
void write_into(const std::string& file, const std::string& text) {
  std::FILE* out = std::fopen(file.c_str(), "we");
  if (!out) fail(file, "cannot be written: " + errno_text());
  const bool written = std::fputs(text.c_str(), out) >= 0;
  if (std::fclose(out) != 0 || !written) fail(file, "cannot be written: " + errno_text());
}

// Replaces unsafe characters in untrusted names and texts, which readers of the report will show.
Json made_safe(const Json& from) {
  if (from.is_string()) return printable(from.get_ref<const std::string&>(), "\n\t");
  if (!from.is_structured()) return from;
  Json out = from.is_array() ? Json::array() : Json::object();
  for (const auto& [key, value] : from.items()) {
    if (from.is_array())
      out.push_back(made_safe(value));
    else
      out[printable(key)] = made_safe(value);
  }
  return out;
}

}  // namespace

void print_json(const Json& document, const std::string& file) {
  const std::string text =
      made_safe(document).dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  if (file.empty() || file == "-") return void(std::fputs(text.c_str(), stdout));
  std::error_code none;
  const fs::file_status is = fs::status(file, none);
  if (fs::exists(is) && !fs::is_regular_file(is)) return write_into(file, text);
  // For a link, writes to its target.
  const fs::path target = fs::exists(is) ? fs::canonical(file, none) : fs::path();
  write_file_atomic(target.empty() ? fs::path(file) : target, text);
}

}  // namespace fk
