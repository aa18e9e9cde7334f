// SPDX-License-Identifier: Apache-2.0
// Which function of a plugin this thread is in, for a communicator: its calls belong into some of
// them alone. The host itself, and threads that a plugin has made, are in none.
#pragma once
#include <string>
#include <string_view>

#include "core/base/error.hpp"

namespace fk {

inline thread_local const char* called_in = nullptr;  // "create"; null: none

// While it lives. A child's functions are called within its parent's.
class CalledIn {
 public:
  explicit CalledIn(const char* function) : before_(called_in) { called_in = function; }
  ~CalledIn() { called_in = before_; }
  CalledIn(const CalledIn&) = delete;

 private:
  const char* const before_;
};

// In every sentence of need_place(), for who has only the words.
inline constexpr std::string_view kNotThere = "may not be called in";

// Error where a call of fk_comm, by its name, may not be made: collectives in forward() only,
// symmetric() in create() and prepare() only.
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
