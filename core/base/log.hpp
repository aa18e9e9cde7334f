// SPDX-License-Identifier: Apache-2.0
//
// Lines on stderr for people. Results never go here. The functions take finished text, so that not
// every file includes a formatting library.

#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>

namespace fk {

enum class LogLevel : uint8_t { debug, info, warn, error, off };

/// FK_LOG sets the level (debug, info, warn, error, off); the default is warn. An unknown word in
/// FK_LOG is reported once and means warn. Error with the nearest name for an unknown word.
LogLevel log_level_from(std::string_view name);

/// One line in a single write, so that lines of threads and processes do not mix. Control
/// characters other than newline and tab become `?`, because a plugin may have written part of the
/// line. Safe from any thread.
/// `about`: names and values, such as the job of a line. They follow the text in brackets.
using LogAbout = std::initializer_list<std::pair<std::string_view, std::string_view>>;
void log_debug(std::string_view text, LogAbout about = {});
void log_info(std::string_view text, LogAbout about = {});
void log_warn(std::string_view text, LogAbout about = {});

/// From now on each line is a JSON object with time, level and text, and each pair of `about` is a
/// key. The level is info where FK_LOG sets none. [before the first thread]
void log_as_json();

}  // namespace fk
