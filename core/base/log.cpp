// SPDX-License-Identifier: Apache-2.0
//
// One write(2) per line.

#include "core/base/log.hpp"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/text.hpp"

namespace fk {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"debug", "info", "warn", "error", "off"};

bool as_json = false;

// nlohmann-json escapes what a plugin may have written. A line is read by programs.
std::string json_line(LogLevel level, std::string_view text, LogAbout about) {
  nlohmann::ordered_json line = {
      {"time", now_text()}, {"level", kNames[static_cast<std::size_t>(level)]}, {"text", text}};
  for (const auto& [key, value] : about) line[std::string(key)] = value;
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string plain_line(LogLevel level, std::string_view text, LogAbout about) {
  std::string line = "fk-host ";
  line += kNames[static_cast<std::size_t>(level)];
  line += ": ";
  line += text;
  std::string words;
  for (const auto& [key, value] : about)
    words += (words.empty() ? " (" : ", ") + std::string(key) + " " + std::string(value);
  return printable(line + words + (words.empty() ? "" : ")"), "\n\t");
}

void write_line(LogLevel level, std::string_view text, LogAbout about) {
  const std::string line =
      (as_json ? json_line(level, text, about) : plain_line(level, text, about)) + '\n';
  // A failed write loses the line: no other place for the message is left.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

LogLevel initial_level() {
  const char* text = std::getenv("FK_LOG");
  if (text == nullptr || *text == '\0') return as_json ? LogLevel::info : LogLevel::warn;
  try {
    return log_level_from(text);
  } catch (const Error& error) {
    write_line(LogLevel::warn, error.what(), {});
    return LogLevel::warn;
  }
}

void log(LogLevel level, std::string_view text, LogAbout about) {
  static const LogLevel least = initial_level();
  if (level >= least) write_line(level, text, about);
}

}  // namespace

LogLevel log_level_from(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == lower(name)) return static_cast<LogLevel>(i);
  }
  fail("log level", "unknown level `" + excerpt(name) + "`",
       did_you_mean(name, {kNames.begin(), kNames.end()}));
}

void log_debug(std::string_view text, LogAbout about) { log(LogLevel::debug, text, about); }
void log_info(std::string_view text, LogAbout about) { log(LogLevel::info, text, about); }
void log_warn(std::string_view text, LogAbout about) { log(LogLevel::warn, text, about); }

void log_as_json() { as_json = true; }

}  // namespace fk
