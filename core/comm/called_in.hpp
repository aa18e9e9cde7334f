// SPDX-License-Identifier: Apache-2.0
// The function of a plugin that this thread runs now. A communicator allows its calls in some
// functions only. The host's own code, and threads that a plugin starts, run none.
#pragma once
#include <string>
#include <string_view>

#include "core/base/error.hpp"

namespace fk {

inline thread_local const char* called_in = nullptr;  // "create"; null: none

// Sets it for its lifetime. Calls nest: a child's functions run within its parent's.
class CalledIn {
 public:
  explicit CalledIn(const char* function) : before_(called_in) { called_in = function; }
  ~CalledIn() { called_in = before_; }
  CalledIn(const CalledIn&) = delete;

 private:
  const char* const before_;
};

// Part of every error text of need_place(), to recognise it.
inline constexpr std::string_view kNotThere = "may not be called in";

// Error where this call of fk_comm is not allowed: collectives run in forward() only, symmetric()
// in create() and prepare() only.
inline void need_place(std::string_view call) {
  if (!called_in) return;
  const std::string_view in = called_in;
  const bool making = in == "create" || in == "prepare";
  if (call == "symmetric" ? making : in == "forward") return;
  fail("ranks", std::string(call) + "() " + std::string(kNotThere) + " " + std::string(in) +
                    "(), but in " + (call == "symmetric" ? "create() or prepare()" : "forward()") +
                    " alone");
}

}  // namespace fk
