// SPDX-License-Identifier: Apache-2.0
#include "core/report/progress.hpp"

#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>

#include "core/base/text.hpp"

namespace fk {

namespace {

constexpr double kRewriteEvery = 0.05, kLineEvery = 5;  // seconds

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

ProgressLine::ProgressLine() : terminal_(isatty(STDERR_FILENO) != 0), last_s_(seconds()) {}

void ProgressLine::say(const std::string& text) {
  const double now = seconds();
  if (now - last_s_ < (terminal_ ? kRewriteEvery : kLineEvery)) return;
  last_s_ = now;
  shown_ = true;
  const std::string line = excerpt(text, terminal_ ? columns() - 1 : 200);
  std::fprintf(stderr, terminal_ ? "\r\033[K%s" : "%s\n", line.c_str());
  std::fflush(stderr);
}

void ProgressLine::clear() {
  if (terminal_ && shown_) std::fputs("\r\033[K", stderr);
  shown_ = false;
}

}  // namespace fk
