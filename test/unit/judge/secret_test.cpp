// SPDX-License-Identifier: Apache-2.0
// Seeds can be repeated from the printed secret, and every purpose has its own.
#include "core/judge/verdict/secret.hpp"

#include "core/base/error.hpp"
#include "core/base/sha256.hpp"
#include "test/catch.hpp"

using namespace fk;

TEST_CASE("the printed secret gives the same seeds, and its hash is the commitment") {
  const Secret hidden = Secret::draw();
  const Secret again = Secret::from_hex(hidden.hex(), "x");
  CHECK(again.seed("a/b") == hidden.seed("a/b"));
  CHECK(again.commitment() == hidden.commitment());
  CHECK(hidden.commitment() == sha256(bytes_of_hex(hidden.hex(), 32, "x")));
  CHECK(hidden.seed("a/b") != hidden.seed("a/c"));
  CHECK(Secret::draw().hex() != hidden.hex());
  CHECK_THROWS_AS(Secret::from_hex("12", "x"), Error);
}

TEST_CASE("a seed can be computed elsewhere") {
  // python3: int(hashlib.sha256(bytes(32) + b"|inputs").hexdigest()[:16], 16)
  const Secret zero = Secret::from_hex(std::string(64, '0'), "x");
  CHECK(zero.seed("inputs") == 15639477493326457678ull);
}
