// SPDX-License-Identifier: Apache-2.0
//
// Three ways to give up. Bad input (a file, an argument, a plugin's claim) is an `Error`: one
// sentence with where, what and, if known, the remedy. A service that the machine refuses is a
// `HostError`. A broken invariant of the host is FK_CHECK, which aborts: later output of the host
// could not be trusted.

#pragma once

#include <stdexcept>
#include <string>

namespace fk {

/// Bad input. what() is "where: what (hint)"; empty parts are left out with their punctuation.
class Error : public std::runtime_error {
 public:
  /// `where`: a file position, a path or a name. `what`: a sentence without a full stop. `hint`:
  /// the remedy.
  Error(std::string where, std::string what, std::string hint = "");

  const std::string& where() const noexcept { return where_; }
  const std::string& what_text() const noexcept { return what_; }
  const std::string& hint() const noexcept { return hint_; }

 private:
  std::string where_, what_, hint_;
};

/// The machine refuses a service to the host, such as a folder to write to. No input is at fault,
/// so a judge has no verdict on the candidate.
class HostError : public Error {
 public:
  using Error::Error;
};

/// Throws Error(where, what, hint).
[[noreturn]] void fail(std::string where, std::string what, std::string hint = "");
/// Throws HostError(where, what, hint).
[[noreturn]] void fail_host(std::string where, std::string what, std::string hint = "");

namespace detail {
/// Prints "file:line: check failed: condition: message" to stderr and aborts. Allocates nothing.
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const char* message) noexcept;
}  // namespace detail

}  // namespace fk

/// Aborts when `cond` is false. For invariants of the host, never for input. `message` is a C
/// string. Release builds keep the check.
#define FK_CHECK(cond, message) \
  ((cond) ? static_cast<void>(0) : ::fk::detail::check_failed(__FILE__, __LINE__, #cond, message))
