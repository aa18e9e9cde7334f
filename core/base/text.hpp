// SPDX-License-Identifier: Apache-2.0
//
// Small helpers for text that people read: suggestions for misspelt names, splitting and joining,
// and numbers with units.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fk {

/// The candidate with the smallest edit distance (insert, delete, replace, swap of neighbours; case
/// is ignored) to `word`; the first of equals. Empty when no distance is within a third of the
/// word's length (at least 1, so very short words match only almost exactly).
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

/// A hint for an unknown name: "did you mean `x`?", else "known: a, b, c". It lists at most 12
/// names, then ", and 30 more". Names that share parts with the word (`rms` and `norm`) come first.
/// Empty when there are no candidates.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

/// The parts between separators, empty ones included; one empty part for an empty text.
std::vector<std::string> split(std::string_view text, char separator);

/// The parts with `separator` between them.
std::string join(const std::vector<std::string>& parts, std::string_view separator);

/// The text without ASCII white space at both ends; a view into the argument.
std::string_view trim(std::string_view text);

bool starts_with(std::string_view text, std::string_view prefix);
bool ends_with(std::string_view text, std::string_view suffix);

/// ASCII lower and upper case.
std::string lower(std::string_view text);
std::string upper(std::string_view text);

/// At most `bytes_max` bytes, cut at a UTF-8 boundary with "..." at the end, for untrusted input
/// inside a message. Unsafe bytes are written as \xNN. They are control characters (C0, DEL, C1),
/// marks that turn the direction of text or are invisible, and bytes that are not UTF-8.
std::string excerpt(std::string_view text, std::size_t bytes_max = 60);

/// The text with `?` for unsafe characters, except those in `kept`.
std::string printable(std::string_view text, std::string_view kept = "");

/// Number of bytes at the end of `text` that begin an incomplete UTF-8 character.
std::size_t begun_character(std::string_view text);

/// The text before the first NUL, at most `size` bytes; other processes may write to the memory.
/// Bytes outside of printable ASCII become `?`.
std::string bounded(const char* text, std::size_t size);

bool contains(const std::vector<std::string>& list, std::string_view word);

/// Error at an option for the first unknown name in `wanted`, with the nearest known one. `noun`:
/// the kind of name, for the message.
void need_known(const std::vector<std::string>& wanted, const std::vector<std::string>& known,
                const std::string& option, const std::string& noun);

/// The value of an environment variable; the fallback if it is unset or empty.
std::string environment(const char* name, std::string_view fallback = "");

/// The reason of the last failed system call, in words.
std::string errno_text();

/// "640 B", "1.5 KiB", "93.0 GiB".
std::string human_bytes(int64_t bytes);

/// "950", "12.3 k", "1.2 M", "46.7 G" (powers of 1000).
std::string human_count(int64_t count);

/// "812 ns", "12.1 us", "3.40 ms", "1.5 s", "2 min 05 s", "3 h 07 min". `seconds` may be negative.
std::string human_duration(double seconds);

}  // namespace fk
