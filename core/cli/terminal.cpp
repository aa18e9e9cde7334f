// SPDX-License-Identifier: Apache-2.0
#include "core/cli/terminal.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "core/base/text.hpp"

namespace fk {

namespace {

// Styles of report/table.cpp and report/progress.cpp, and the new page of cli/top.cpp.
constexpr std::string_view kOwn[] = {"\033[0m",  "\033[1m",  "\033[2m",      "\033[31m",
                                     "\033[32m", "\r\033[K", "\033[H\033[2J"};

std::string_view own_at(std::string_view text) {
  for (const std::string_view own : kOwn)
    if (text.starts_with(own)) return own;
  return {};
}

// Number of bytes at the end that may continue in the next write: a character, or a style.
size_t unfinished(std::string_view text) {
  const size_t at = text.find_last_of("\r\033");
  const size_t from = at != text.npos && at > 0 && text[at - 1] == '\r' ? at - 1 : at;
  for (const size_t begin : {from, at})
    if (begin != text.npos &&
        std::any_of(std::begin(kOwn), std::end(kOwn), [&](std::string_view own) {
          const std::string_view rest = text.substr(begin);
          return rest.size() < own.size() && own.starts_with(rest);
        }))
      return text.size() - begin;
  return begun_character(text);
}

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(fd, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    text.remove_prefix(static_cast<size_t>(put));
  }
  return true;
}

// A descriptor behind a stream, with the text that is held back.
struct Guarded {
  int fd;
  std::string held;
};

ssize_t write_guarded(void* cookie, const char* text, size_t bytes) {
  Guarded& to = *static_cast<Guarded*>(cookie);
  to.held.append(text, bytes);
  const size_t ready = to.held.size() - unfinished(to.held);
  const bool written = write_all(to.fd, for_terminal(std::string_view(to.held).substr(0, ready)));
  to.held.erase(0, ready);
  return written ? static_cast<ssize_t>(bytes) : 0;
}

std::FILE* guarded(int fd, int buffering) {
  cookie_io_functions_t functions{};
  functions.write = write_guarded;
  // lives as long as the process
  std::FILE* stream = fopencookie(new Guarded{fd, {}}, "w", functions);
  if (stream) std::setvbuf(stream, nullptr, buffering, BUFSIZ);
  return stream;
}

}  // namespace

std::string for_terminal(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::string_view own = own_at(text);
    out += own;
    text.remove_prefix(own.size());
    const size_t end = std::min(text.find_first_of("\r\033", own.empty() ? 1 : 0), text.size());
    out += printable(text.substr(0, end), "\n\t");
    text.remove_prefix(end);
  }
  return out;
}

void guard_terminal() {
  if (std::FILE* stream = guarded(STDOUT_FILENO, ::isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF))
    stdout = stream;
  if (std::FILE* stream = guarded(STDERR_FILENO, _IONBF)) stderr = stream;
}

}  // namespace fk
