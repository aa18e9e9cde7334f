// SPDX-License-Identifier: Apache-2.0
//
// Lines on stderr for people. Results never go here. The functions take finished text, so that not
// every file includes a formatting library.

#pragma once

#include <cstdint>
#include <string_view>

namespace fk {

enum class LogLevel : uint8_t { debug, info, warn, error, off };

/// FK_LOG sets the level (debug, info, warn, error, off); the default is warn. An unknown word in
/// FK_LOG is reported once and means warn. Error with the nearest name for an unknown word.
LogLevel log_level_from(std::string_view name);

/// One line in a single write, so that lines of threads and processes do not mix. Control
/// characters other than newline and tab become `?`, because a plugin may have written part of the
/// line. Safe from any thread.
void log_debug(std::string_view text);
void log_info(std::string_view text);
void log_warn(std::string_view text);

}  // namespace fk
