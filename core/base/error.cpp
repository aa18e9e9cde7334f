// SPDX-License-Identifier: Apache-2.0
//
// The text of an Error and the end of a process whose invariant broke.

#include "core/base/error.hpp"

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace fk {
namespace {

std::string sentence(const std::string& where, const std::string& what, const std::string& hint) {
  std::string text = where;
  if (!where.empty() && !what.empty()) text += ": ";
  text += what;
  if (!hint.empty()) text += (text.empty() ? "(" : " (") + hint + ")";
  return text;
}

}  // namespace

Error::Error(std::string where, std::string what, std::string hint)
    : std::runtime_error(sentence(where, what, hint)),
      where_(std::move(where)),
      what_(std::move(what)),
      hint_(std::move(hint)) {}

void fail(std::string where, std::string what, std::string hint) {
  throw Error(std::move(where), std::move(what), std::move(hint));
}

void fail_host(std::string where, std::string what, std::string hint) {
  throw HostError(std::move(where), std::move(what), std::move(hint));
}

void detail::check_failed(const char* file, int line, const char* condition,
                          const char* message) noexcept {
  std::fprintf(stderr, "%s:%d: check failed: %s: %s\n", file, line, condition, message);
  std::fflush(stderr);
  std::abort();
}

}  // namespace fk
