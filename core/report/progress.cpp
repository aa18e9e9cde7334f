// SPDX-License-Identifier: Apache-2.0
#include "core/report/progress.hpp"

#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>

#include "core/base/text.hpp"

namespace fk {

namespace {

constexpr double kRewriteEvery = 0.05, kLineEvery = 10;  // seconds

double seconds() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

size_t columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 10 ? size.ws_col : 80;
}

}  // namespace

std::optional<std::pair<int64_t, int64_t>> part_of(std::string_view text) {
  constexpr std::string_view kOf = " of ";
  for (size_t at = text.rfind('('); at != text.npos;
       at = at ? text.rfind('(', at - 1) : text.npos) {
    int64_t part = 0, parts = 0;
    const char* const end = text.data() + text.size();
    const auto first = std::from_chars(text.data() + at + 1, end, part);
    const std::string_view rest(first.ptr, static_cast<size_t>(end - first.ptr));
    if (first.ec != std::errc{} || !rest.starts_with(kOf)) continue;
    const auto second = std::from_chars(rest.data() + kOf.size(), end, parts);
    const bool closed = second.ec == std::errc{} && second.ptr != end && *second.ptr == ')';
    if (closed && part >= 1 && part <= parts) return std::pair(part, parts);
  }
  return {};
}

std::string progress_bar(int64_t part, int64_t parts) {
  constexpr int64_t kColumns = 10;
  const auto done = static_cast<size_t>((part - 1) * kColumns / parts);
  return "[" + std::string(done, '#') + std::string(kColumns - done, ' ') + "]";
}

ProgressLine::ProgressLine() : terminal_(isatty(STDERR_FILENO) != 0), last_s_(seconds()) {}

void ProgressLine::say(const std::string& text) {
  const double now = seconds();
  if (now - last_s_ < (terminal_ ? kRewriteEvery : kLineEvery)) return;
  last_s_ = now;
  shown_ = true;
  const auto part = terminal_ ? part_of(text) : std::nullopt;
  const std::string bar = part ? progress_bar(part->first, part->second) + " " : "";
  const std::string line = excerpt(bar + text, terminal_ ? columns() - 1 : 200);
  std::fprintf(stderr, terminal_ ? "\r\033[K%s" : "%s\n", line.c_str());
  std::fflush(stderr);
}

void ProgressLine::clear() {
  if (terminal_ && shown_) std::fputs("\r\033[K", stderr);
  shown_ = false;
}

}  // namespace fk
