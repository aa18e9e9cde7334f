// SPDX-License-Identifier: Apache-2.0
//
// Catch2 under one name: 3 as packaged by Ubuntu 24.04, 2 as packaged by Debian 12.

#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
#else
#include <catch2/catch.hpp>
inline auto ContainsSubstring(const std::string& text) { return Catch::Matchers::Contains(text); }
#endif

/// Compiled for AddressSanitizer and without optimisation. A check that is thirty times as slow
/// there has fewer repetitions, if they would say no more about memory.
#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// The text of the exception of type `Type` that `call` throws; fails the test when it throws none.
template <class Type, class Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const Type& error) {
    return error.what();
  }
  FAIL("nothing was thrown");
  return {};
}
