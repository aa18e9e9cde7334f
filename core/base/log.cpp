// SPDX-License-Identifier: Apache-2.0
//
// One write(2) per line.

#include "core/base/log.hpp"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>

#include "core/base/error.hpp"
#include "core/base/text.hpp"

namespace fk {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"debug", "info", "warn", "error", "off"};

void write_line(LogLevel level, std::string_view text) {
  std::string line = "fk-host ";
  line += kNames[static_cast<std::size_t>(level)];
  line += ": ";
  line += printable(std::string(text), "\n\t") + '\n';
  // A failed write loses the line: no other place for the message is left.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

LogLevel initial_level() {
  const char* text = std::getenv("FK_LOG");
  if (text == nullptr || *text == '\0') return LogLevel::warn;
  try {
    return log_level_from(text);
  } catch (const Error& error) {
    write_line(LogLevel::warn, error.what());
    return LogLevel::warn;
  }
}

void log(LogLevel level, std::string_view text) {
  static const LogLevel least = initial_level();
  if (level >= least) write_line(level, text);
}

}  // namespace

LogLevel log_level_from(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == lower(name)) return static_cast<LogLevel>(i);
  }
  fail("log level", "unknown level `" + excerpt(name) + "`",
       did_you_mean(name, {kNames.begin(), kNames.end()}));
}

void log_debug(std::string_view text) { log(LogLevel::debug, text); }
void log_info(std::string_view text) { log(LogLevel::info, text); }
void log_warn(std::string_view text) { log(LogLevel::warn, text); }

}  // namespace fk
