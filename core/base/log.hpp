// SPDX-License-Identifier: Apache-2.0
//
// Lines on stderr for people who watch. Results never go here. The functions take finished text, so
// that no formatting library is pulled into every file.

#pragma once

#include <cstdint>
#include <string_view>

namespace fk {

enum class LogLevel : uint8_t { debug, info, warn, error, off };

/// The level is that of FK_LOG (debug, info, warn, error, off), else warn; an unknown word is
/// reported once and means warn. Error with the nearest name for an unknown word.
LogLevel log_level_from(std::string_view name);

/// One line, written with a single call so that lines of threads and processes do not mix; control
/// characters other than newline and tab become `?`, because part of a line may come from a
/// plugin. Safe from any thread.
void log_debug(std::string_view text);
void log_info(std::string_view text);
void log_warn(std::string_view text);

}  // namespace fk
